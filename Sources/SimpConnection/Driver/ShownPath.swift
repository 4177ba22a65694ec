internal import SimpCore

/// What the application was told of its UDP path last.
struct ShownPath {
  enum News: Equatable {
    case up
    case degraded
  }

  /// That it is up, as itself or degraded.
  private var isUp = false
  private var sending = false
  private var receiving = false

  /// The path is down, or another: that it is up is news again.
  mutating func reset() { self = ShownPath() }

  /// What there is to tell of a path that is up: that it is, that a direction has become degraded or is no more while the
  /// other is, and that none is any more.
  mutating func news(sending: PathState, receiving: PathState) -> [News] {
    var news: [News] = isUp ? [] : [.up]
    isUp = true
    let now = (sending == .degraded, receiving == .degraded)
    guard now != (self.sending, self.receiving) else { return news }
    (self.sending, self.receiving) = now
    news.append(now.0 || now.1 ? .degraded : .up)
    return news
  }
}
