import SimpCore

/// What is to happen, by instant; at one instant in the order it was scheduled.
struct EventHeap {
  private struct Event {
    var at: Instant
    var sequence: UInt64
    var body: () -> Void

    func isBefore(_ other: Event) -> Bool { at == other.at ? sequence < other.sequence : at < other.at }
  }

  private var heap: [Event] = []
  private var sequence: UInt64 = 0

  var first: Instant? { heap.first?.at }

  mutating func insert(_ at: Instant, _ body: @escaping () -> Void) {
    sequence += 1
    heap.append(Event(at: at, sequence: sequence, body: body))
    var index = heap.count - 1
    while index > 0, heap[index].isBefore(heap[(index - 1) / 2]) {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  /// The next event if it is due.
  mutating func popFirst(until now: Instant) -> (() -> Void)? {
    guard let first = heap.first, first.at <= now else { return nil }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].isBefore(heap[least]) {
        least = child
      }
      if least == index { return first.body }
      heap.swapAt(index, least)
      index = least
    }
  }
}
