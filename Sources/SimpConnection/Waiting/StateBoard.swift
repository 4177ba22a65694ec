internal import SimpIO

/// The present state of a connection, and those who read its states. Any thread.
final class StateBoard: Sendable {
  private struct WeakFeed { weak var feed: StateFeed? }

  private struct Board {
    var state: SIMPState?
    // BOUND: dead ones go at each new reader.
    var feeds: [WeakFeed] = []
  }

  private let board = Locked(Board())

  func makeFeed() -> StateFeed {
    board.withLock { board in
      let feed = StateFeed(first: board.state)
      board.feeds.removeAll { $0.feed == nil }
      board.feeds.append(WeakFeed(feed: feed))
      return feed
    }
  }

  func show(_ state: SIMPState) {
    let feeds = board.withLock { board in
      board.state = state
      return board.feeds
    }
    for weak in feeds { weak.feed?.states.update { $0.push(state) } }
  }
}
