internal import SimpCore
internal import SimpIO

/// Does things after a time, the earliest first. On its loop only.
final class DelayLine {
  private let loop: EventLoop
  private var timer: LoopTimer?
  // BOUND: what passes in the longest delay. The latest first.
  private var waiting: [(due: Instant, body: () -> Void)] = []

  init(_ loop: EventLoop) { self.loop = loop }

  func add(after delay: Interval, _ body: @escaping () -> Void) {
    guard delay > .zero else { return body() }
    let due = loop.now + delay
    var (low, high) = (0, waiting.count)
    while low < high {
      let middle = (low + high) / 2
      if waiting[middle].due > due { low = middle + 1 } else { high = middle }
    }
    waiting.insert((due, body), at: low)
    arm()
  }

  private func arm() {
    guard let first = waiting.last?.due else { return }
    let timer = timer ?? loop.makeTimer { [unowned self] in run() }
    self.timer = timer
    timer.arm(at: first)
  }

  private func run() {
    let now = loop.now
    while let next = waiting.last, next.due <= now {
      waiting.removeLast()
      next.body()
    }
    arm()
  }

  func close() {
    timer?.close()
    timer = nil
    waiting = []
  }
}
