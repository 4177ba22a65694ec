@testable import SimpCore

/// The byte stream of a TCP connection, cut anywhere: the same packets come out as when it came in one piece, the same
/// error ends it, and nothing is kept beyond one unfinished packet.
enum StreamTarget {
  static let target = FuzzTarget(name: "stream", maximumBytes: 512, seeds: { seeds }, run: run)

  /// What a stream gives: its packets, and the error that ends it.
  private struct Reading: Equatable {
    var packets: [[UInt8]] = []
    var error: WireError?
  }

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let limit = [64, 256, WireLimits.maximumPacketBytesBeforeLogin, WireLimits.maximumPacketBytes][
      Int(script.choice(4))]
    let cuts = script.bytes(Int(script.choice(8)))
    let stream = script.rest()

    let expected = readNaively(stream, limit: limit)
    var assembler = PacketAssembler(limit: limit)
    var found = Reading()
    var start = 0
    var cut = 0
    while start < stream.count, found.error == nil {
      // After the cuts of the input, one piece more.
      let end = cut < cuts.count ? min(start + Int(cuts[cut]), stream.count) : stream.count
      cut += 1
      assembler.append(stream[start..<end].span)
      start = end
      do throws(WireError) {
        while let packet = try assembler.next() { found.packets.append(packet) }
      } catch {
        found.error = error
      }
      let kept = assembler.bufferedBytes
      try require(found.error != nil || kept < limit, "\(kept) bytes kept under a limit of \(limit)")
    }
    try require(found == expected, "cut at \(cuts): \(found), in one piece: \(expected)")
  }

  /// The rule as the wire document has it, over the whole stream at once.
  private static func readNaively(_ stream: [UInt8], limit: Int) -> Reading {
    var reading = Reading()
    var rest = stream[...]
    while rest.count >= 4 {
      let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
      guard length >= 16, length <= limit else {
        reading.error = .badLength(UInt32(length))
        break
      }
      guard rest.count >= 16 else { break }
      let head = Array(rest.prefix(16))
      func field(_ offset: Int) -> UInt16 { UInt16(head[offset]) << 8 | UInt16(head[offset + 1]) }
      if field(4) != 1 {
        reading.error = .unsupportedVersion(field(4))
      } else if field(6) > 7 {
        reading.error = .unknownFlags(field(6))
      } else if field(14) != 0 {
        reading.error = .reservedNotZero(field(14))
      }
      guard reading.error == nil, rest.count >= length else { break }
      reading.packets.append(Array(rest.prefix(length)))
      rest = rest.dropFirst(length)
    }
    return reading
  }

  private static var seeds: [[UInt8]] {
    let packets = Packets.ping + Packets.message(order: 1) + Packets.ping
    return [
      [3, 0] + packets, [2, 3, 1, 5, 20] + packets, [1, 7, 4, 12, 1, 1, 1, 30, 2] + packets,
      [0, 1, 16] + packets, [3, 0] + Packets.ping + [0xFF, 0xFF, 0xFF, 0xFF],
    ]
  }
}
