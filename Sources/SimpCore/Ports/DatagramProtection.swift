/// Which key of the opening direction a datagram is tried with. By its number there is never more than one to try.
public enum OpeningKey: Hashable, Sendable {
  /// Of the phase before the present one, until it is forgotten.
  case former
  case present
  /// Of the phase that the peer may change to.
  case next
}

/// Seals and opens the datagrams of one session in both directions (wire document, "Datagrams"). A class, because
/// it owns key contexts; touched only where its session is. Which phase each direction is in, and when it changes, is
/// decided by `KeyPhases`.
public protocol DatagramProtection: AnyObject {
  /// Encrypts `datagram[16...]` in place with the 16 header bytes as associated data and appends the 16-byte tag.
  ///
  /// - Parameter packetNumber: the number in the header; the caller never uses one twice.
  func seal(_ datagram: inout [UInt8], packetNumber: UInt64)

  /// Decrypts `datagram[16 ..< count - 16]` in place if the tag at the end is right. The next key is derived when it is
  /// asked for the first time, and kept: however much junk comes, one phase costs one derivation.
  ///
  /// - Returns: false, with the contents undefined, when the tag is wrong, the datagram is under 32 bytes, or the key
  ///   was forgotten.
  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool

  /// Goes on to the next sealing key; the present one is wiped.
  func changeSealingKey()

  /// The next opening key becomes the present one, and that the former one.
  func changeOpeningKey()

  /// Wipes the former opening key.
  func forgetFormerKey()
}
