/// Seals and opens the datagrams of one session in both directions (wire document, "Datagrams"). A class, because
/// it owns key contexts; touched only where its session is.
public protocol DatagramProtection: AnyObject {
  /// Encrypts `datagram[16...]` in place with the 16 header bytes as associated data and appends the 16-byte tag.
  ///
  /// - Parameter packetNumber: the number in the header; the caller never uses one twice.
  func seal(_ datagram: inout [UInt8], packetNumber: UInt64)

  /// Decrypts `datagram[16 ..< count - 16]` in place if the tag at the end is right.
  ///
  /// - Returns: false, with the contents undefined, when the tag is wrong or the datagram is under 32 bytes.
  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64) -> Bool
}
