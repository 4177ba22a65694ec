internal import CSimpLinux
internal import SimpCore

/// The timers of a loop: a binary heap over one timerfd.
final class TimerQueue: PollOwner {
  private unowned let loop: EventLoop
  private var poller: Poller!
  private var heap: [LoopTimer] = []
  private var due: [LoopTimer] = []
  /// What the timerfd is set to.
  private var armedFor = Instant.never
  private var isFiring = false

  init(loop: EventLoop) throws(IOError) {
    self.loop = loop
    let fd = simp_timer_open()
    guard fd >= 0 else { throw IOError(code: -fd, operation: "make a timer") }
    poller = try Poller(loop: loop, fd: fd)
    poller.owner = self
    poller.watch(.readable)
  }

  func close() {
    for timer in heap {
      timer.slot = -1
      timer.queuedFor = .never
    }
    // Taken out first: closing a timer looks at the heap.
    let timers = heap
    heap = []
    for timer in timers { timer.close() }
    poller.close()
  }

  /// Enters `timer` for its deadline, or moves it forward to it.
  func enter(_ timer: LoopTimer) {
    guard !poller.isClosed else { return }
    timer.queuedFor = timer.deadline
    if timer.slot < 0 {
      timer.slot = heap.count
      heap.append(timer)
    }
    rise(timer.slot)
    if !isFiring { setAlarm() }
  }

  func leave(_ timer: LoopTimer) {
    let slot = timer.slot
    timer.queuedFor = .never
    guard slot >= 0 else { return }
    timer.slot = -1
    let last = heap.removeLast()
    if last !== timer {
      put(last, slot)
      rise(slot)
      sink(last.slot)
    }
    // The timerfd keeps its time: it then comes for nothing once.
  }

  func ready(_ events: Poller.Events) {
    isFiring = true
    let now = loop.now
    // All that are due first: one that arms itself for now again waits for the next turn, so that sockets are heard.
    while let first = heap.first, first.queuedFor <= now {
      leave(first)
      due.append(first)
    }
    for timer in due { timer.come(at: now) }
    due.removeAll(keepingCapacity: true)
    isFiring = false
    // Setting it, even to nothing, also takes back that it is readable.
    armedFor = .never
    guard !poller.isClosed else { return }
    if heap.isEmpty { arm(.never) } else { setAlarm() }
  }

  private func setAlarm() {
    if let first = heap.first, first.queuedFor < armedFor { arm(first.queuedFor) }
  }

  private func arm(_ instant: Instant) {
    armedFor = instant
    // 0 means disarmed to the kernel; an instant before the first nanosecond is one in the past.
    let status = simp_timer_arm(poller.fd, instant == .never ? 0 : max(instant.nanoseconds, 1))
    precondition(status == 0, "timerfd_settime: \(IOError(code: -status, operation: "arm a timer"))")
  }

  // MARK: The heap

  private func put(_ timer: LoopTimer, _ slot: Int) {
    heap[slot] = timer
    timer.slot = slot
  }

  private func rise(_ start: Int) {
    var slot = start
    let timer = heap[slot]
    while slot > 0 {
      let parent = (slot - 1) / 2
      guard timer.queuedFor < heap[parent].queuedFor else { break }
      put(heap[parent], slot)
      slot = parent
    }
    put(timer, slot)
  }

  private func sink(_ start: Int) {
    var slot = start
    let timer = heap[slot]
    while true {
      var child = 2 * slot + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count && heap[child + 1].queuedFor < heap[child].queuedFor { child += 1 }
      guard heap[child].queuedFor < timer.queuedFor else { break }
      put(heap[child], slot)
      slot = child
    }
    put(timer, slot)
  }
}
