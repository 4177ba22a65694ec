internal import SimpCore

/// When which session wants to be flushed. Entries of sessions that changed their mind stay until they are due, and are
/// then judged anew.
struct DeadlineHeap {
  private var heap: [(deadline: Instant, session: UInt64)] = []

  var first: Instant? { heap.first?.deadline }

  mutating func insert(_ session: UInt64, at deadline: Instant) {
    heap.append((deadline, session))
    var index = heap.count - 1
    while index > 0, heap[index].deadline < heap[(index - 1) / 2].deadline {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  /// Takes out the first session whose time has come.
  mutating func popDue(now: Instant) -> UInt64? {
    guard let first = heap.first, first.deadline <= now else { return nil }
    let last = heap.removeLast()
    if !heap.isEmpty {
      heap[0] = last
      sink()
    }
    return first.session
  }

  private mutating func sink() {
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < heap.count && heap[child].deadline < heap[least].deadline {
        least = child
      }
      if least == index { return }
      heap.swapAt(index, least)
      index = least
    }
  }
}
