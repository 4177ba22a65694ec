internal import SimpCore

/// How much of what a session sent is held for recipients and has no outcome yet. A sender that keeps to the window it was
/// told never comes near the limit here, which is twice that: a copy of what was finished meanwhile counts once more until
/// its recipient has answered again.
///
/// A number only, for it is on the way of each message. When the sender comes back as another session, what the former one
/// sent is taken from a count that never had it: so it stops at 0, and errs for the sender.
struct Unfinished {
  private(set) var messages = 0
  private(set) var bytes = 0

  func hasRoom(bytes count: Int, limits: SessionLimits) -> Bool {
    messages < 2 * limits.windowMessages && bytes + count <= 2 * limits.windowBytes
  }

  mutating func insert(bytes count: Int) {
    messages += 1
    bytes += count
  }

  /// It has an outcome, or was a copy.
  mutating func remove(bytes count: Int) {
    messages = max(0, messages - 1)
    bytes = messages == 0 ? 0 : max(0, bytes - count)
  }
}
