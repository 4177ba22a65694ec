internal import Glibc
internal import Synchronization

/// Which received messages the application has, written in the moment in which it gets or acknowledges them.
///
/// A commit for each would be too slow, and a commit after it would forget what a killed process handed over. A record of
/// eight bytes in a file beside the store costs a microsecond, and the kernel keeps it when the process dies. The next
/// opening takes the records into the store; meanwhile the writer does so, batch by batch, and the file is a ring.
///
/// From any thread; the caller sees to it that a message's records come one after the other.
public final class HandoverLog: Sendable {
  // BOUND: two records for each message that came and is not acknowledged, which `StoreLimits.receivedMessages` bounds.
  public static let records = 16_384
  private static let headerBytes = 16
  private static let magic: UInt64 = 0x5349_4D50_6861_6E64

  private let path: String
  private let descriptor: Int32
  private let position = Atomic<UInt64>(0)

  /// What the records of an earlier opening say.
  struct Replay {
    var handedOver: Set<UInt64> = []
    var acknowledged: Set<UInt64> = []
  }

  /// - Parameter path: of the log; made (mode 0600) when it is not there.
  init(path: String) throws(StoreError) {
    self.path = path
    descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Database.noAccess(path, errno) }
  }

  deinit { close(descriptor) }

  /// The records that were written after `begin` with this tag; none of another's.
  func replay(tag: UInt64) throws(StoreError) -> Replay {
    var words = [UInt64](repeating: 0, count: Self.headerBytes / 8 + Self.records)
    // SAFETY: reads into `words` only, which outlives the call.
    let count = unsafe words.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
    guard count >= 0 else { throw failure() }
    var replay = Replay()
    guard count >= Self.headerBytes, words[0] == Self.magic, words[1] == tag else { return replay }
    for word in words[2..<count / 8] where word > 0 {
      if word & 1 == 1 { replay.acknowledged.insert(word >> 1) } else { replay.handedOver.insert(word >> 1) }
    }
    return replay
  }

  /// Empties the log; what is noted from now on carries this tag.
  func begin(tag: UInt64) throws(StoreError) {
    var words = [UInt64](repeating: 0, count: Self.headerBytes / 8 + Self.records)
    // All of its room is taken here, so that no later record finds the disk full.
    try write(words, at: 0)
    words[0] = Self.magic
    words[1] = tag
    try write(Array(words[..<2]), at: 0)
    position.store(0, ordering: .relaxed)
  }

  /// The application gets a message now. It must not, when this throws.
  public func noteHandedOver(_ id: UInt64) throws(StoreError) { try note(id << 1) }

  /// The application has acknowledged a message, or gets it now and that counts as such.
  public func noteAcknowledged(_ id: UInt64) throws(StoreError) { try note(id << 1 | 1) }

  private func note(_ word: UInt64) throws(StoreError) {
    let index = Int(position.wrappingAdd(1, ordering: .relaxed).oldValue % UInt64(Self.records))
    try write([word], at: Self.headerBytes + 8 * index)
  }

  private func write(_ words: [UInt64], at offset: Int) throws(StoreError) {
    // SAFETY: writes out of `words` only, which outlives the call.
    let count = unsafe words.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, offset) }
    guard count == words.count * 8 else { throw count < 0 ? failure() : .diskFull(path: path) }
  }

  private func failure() -> StoreError {
    switch errno {
    case ENOSPC, EDQUOT, EFBIG: .diskFull(path: path)
    case EROFS: .readOnly(path: path)
    case let number: .failed(path: path, Database.text(ofError: number))
    }
  }
}
