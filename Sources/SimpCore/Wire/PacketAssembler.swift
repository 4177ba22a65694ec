/// Cuts the byte stream of a TCP connection into packets. Whatever way the stream was split on its road (one byte a
/// read, many packets a read, a packet and a half), the same packets come out.
public struct PacketAssembler: ~Copyable {
  /// Largest packet in force, in bytes; raised when the login is done.
  public var limit: Int

  // BOUND: append() keeps at most what one read brought plus one unfinished packet of `limit` bytes; next() throws
  // for a longer length as soon as its 4 bytes are here.
  private var buffer: [UInt8] = []
  private var start = 0

  public init(limit: Int) { self.limit = limit }

  /// Bytes received and not yet taken as packets.
  public var bufferedBytes: Int { buffer.count - start }

  /// Adds what a read brought.
  public mutating func append(_ bytes: Span<UInt8>) {
    if start > 0 {
      buffer.removeSubrange(0..<start)
      start = 0
    }
    buffer.append(bytes)
  }

  /// The next whole packet, header included, or nil until more bytes come.
  ///
  /// - Throws: what `PacketHeader` throws; the stream cannot be read on after that. The length is judged when its 4
  ///   bytes are here, the rest with the whole header.
  public mutating func next() throws(WireError) -> [UInt8]? {
    guard let packet = try wholePacket() else { return nil }
    start += packet.count
    if start == buffer.count {
      buffer.removeAll(keepingCapacity: buffer.capacity <= 65536)
      start = 0
    }
    return packet
  }

  private func wholePacket() throws(WireError) -> [UInt8]? {
    guard bufferedBytes >= 4 else { return nil }
    let rest = buffer.span.extracting(start..<buffer.count)
    let length = rest.bigEndian32(at: 0)
    guard length >= UInt32(WireLimits.headerBytes), length <= UInt32(limit) else { throw .badLength(length) }
    guard rest.count >= WireLimits.headerBytes else { return nil }
    _ = try PacketHeader(reading: rest, limit: limit)
    guard rest.count >= Int(length) else { return nil }
    return [UInt8](rest.extracting(0..<Int(length)))
  }
}
