internal import SimpRedis
internal import SimpSupport

/// Marks of senders, beside the inboxes whose entries they are about.
extension InboxStore {
  /// Removes what a device has, and writes the marks of it: Redis does both or neither.
  func confirm(
    of user: String, entries: [InboxEntry.ID], marks: [Mark], completion: @escaping (Bool) -> Void
  ) {
    link.together {
      for mark in marks { write(mark) }
      directory.remove(user: user, entries: entries) { [self] result in
        switch result {
        case .success: completion(true)
        case .failure(let error) where error.code == .server && !marks.isEmpty:
          // A Redis that is full takes no marks. The entries go all the same: they alone make room.
          log.debug("marks given up", ["user": user, "reason": error])
          counters.marksLost.add(marks.reduce(0) { $0 + $1.count })
          confirm(of: user, entries: entries, marks: [], completion: completion)
        case .failure(let error):
          log.debug("inbox not confirmed", ["user": user, "reason": error])
          completion(false)
        }
      }
    }
  }

  private func write(_ mark: Mark) {
    self.marks.mark(
      sender: mark.sender.user, device: mark.sender.device, recipient: mark.recipient, state: mark.state,
      orders: mark.orders
    ) { [counters] result in
      // What the store has no room for. A failure is the whole batch's.
      if case .success(let lost) = result { counters.marksLost.add(lost) }
    }
  }

  func readMarks(of sender: SessionEntry.SenderDevice, completion: @escaping ([MarkSet]?) -> Void) {
    marks.marks(sender: sender.user, device: sender.device) { [log] result in
      if case .failure(let error) = result { log.debug("marks not read", ["user": sender.user, "reason": error]) }
      completion(try? result.get())
    }
  }

  /// - Parameter told: not empty.
  func confirmMarks(_ told: [Mark], completion: @escaping (Bool) -> Void) {
    var (unanswered, isDone) = (told.count, true)
    link.together {
      for mark in told {
        marks.confirmMarks(
          sender: mark.sender.user, device: mark.sender.device, recipient: mark.recipient, state: mark.state,
          orders: mark.orders
        ) { [log] result in
          if case .failure(let error) = result {
            isDone = false
            log.debug("marks not confirmed", ["user": mark.sender.user, "reason": error])
          }
          unanswered -= 1
          if unanswered == 0 { completion(isDone) }
        }
      }
    }
  }
}
