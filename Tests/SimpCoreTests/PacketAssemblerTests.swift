import Testing

@testable import SimpCore

@Suite struct PacketAssemblerTests {
  private func packet(_ payloadBytes: Int, number: UInt16 = 1) -> [UInt8] {
    var bytes: [UInt8] = []
    PacketWriter.append(service: 2, number: number, flags: [], sequence: 7, to: &bytes) { payload in
      for index in 0..<payloadBytes { payload.append(UInt8(truncatingIfNeeded: index &* 31)) }
    }
    return bytes
  }

  /// Feeds the reads one by one and takes all packets after each.
  private func packets(of reads: [[UInt8]], limit: Int = WireLimits.maximumPacketBytes) throws -> [[UInt8]] {
    var assembler = PacketAssembler(limit: limit)
    var found: [[UInt8]] = []
    for read in reads {
      assembler.append(read.span)
      while let packet = try assembler.next() { found.append(packet) }
    }
    let rest = assembler.bufferedBytes
    #expect(rest == reads.joined().count - found.joined().count)
    return found
  }

  @Test func aReadMayEndAtEachByte() throws {
    let all = packet(5) + packet(0) + packet(300)
    for cut in 0...all.count {
      let found = try packets(of: [Array(all[..<cut]), Array(all[cut...])])
      #expect(found == [packet(5), packet(0), packet(300)], "cut at \(cut)")
    }
  }

  @Test func aPacketMayComeByteByByte() throws {
    let all = packet(40) + packet(0)
    #expect(try packets(of: all.map { [$0] }) == [packet(40), packet(0)])
  }

  /// The three framing faults of the seed this layout comes from: a length in one byte, the second of two packets in a
  /// read dropped, what is left of a read forgotten.
  @Test(arguments: [239, 240, 241, 255, 256, 65519, 65520, 65521]) func lengthsOver255(payload: Int) throws {
    #expect(try packets(of: [packet(payload)]) == [packet(payload)])
  }

  @Test func twoPacketsInARead() throws {
    #expect(try packets(of: [packet(3) + packet(4)]) == [packet(3), packet(4)])
    #expect(try packets(of: [Array((0..<100).flatMap { packet($0) })]).count == 100)
  }

  @Test func whatIsLeftOfAReadIsKept() throws {
    let third = packet(30)
    let reads = [packet(3) + Array(third[..<10]), Array(third[10..<20]), Array(third[20...]) + packet(1)]
    #expect(try packets(of: reads) == [packet(3), third, packet(1)])
  }

  @Test func anyCutGivesTheSamePackets() throws {
    for seed: UInt64 in 1...50 {
      var random = Seeded(seed)
      let sent = (0..<30).map { _ in packet(Int(random.next() % 700)) }
      var rest = Array(sent.joined())[...]
      var reads: [[UInt8]] = []
      while !rest.isEmpty {
        let count = min(rest.count, Int(random.next() % 900) + 1)
        reads.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
      #expect(try packets(of: reads) == sent, "seed \(seed)")
    }
  }

  @Test func theLimitHoldsAndNoMore() throws {
    let limit = 4096
    #expect(try packets(of: [packet(limit - 16)], limit: limit).count == 1)
    #expect(throws: WireError.badLength(4097)) { try packets(of: [packet(limit - 15)], limit: limit) }
  }

  /// The length is judged when its 4 bytes are here: nothing of a packet that is too long is waited for.
  @Test(arguments: [0, 1, 15, 262_145, 0x8000_0000, 0xFFFF_FFFF] as [UInt32]) func badLengths(length: UInt32) throws {
    var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytes)
    var bytes: [UInt8] = []
    bytes.appendBigEndian(length)
    for byte in bytes.dropLast() {
      assembler.append([byte].span)
      let packet = try assembler.next()
      #expect(packet == nil)
    }
    assembler.append([bytes[3]].span)
    #expect(throws: WireError.badLength(length)) { try assembler.next() }
  }

  @Test func lengthSixteenIsAnEmptyPacket() throws {
    let found = try packets(of: [packet(0)])
    #expect(found.count == 1 && found[0].count == 16)
  }

  @Test func aBrokenHeaderIsFoundBeforeItsPayload() {
    let cases: [(Int, UInt8, WireError)] = [
      (4, 0xFF, .unsupportedVersion(0xFF01)), (5, 2, .unsupportedVersion(2)), (5, 0, .unsupportedVersion(0)),
      (6, 0x80, .unknownFlags(0x8000)), (7, 8, .unknownFlags(8)), (14, 1, .reservedNotZero(0x100)),
      (15, 1, .reservedNotZero(1)),
    ]
    for (offset, value, error) in cases {
      var bytes = packet(1000)
      bytes[offset] = value
      #expect(throws: error) { try packets(of: [Array(bytes[..<16])]) }
    }
  }

  @Test func theLimitRisesWithTheLogin() throws {
    var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytesBeforeLogin)
    assembler.append((packet(10) + packet(5000)).span)
    let first = try assembler.next()
    #expect(first == packet(10))
    assembler.limit = WireLimits.maximumPacketBytes
    let second = try assembler.next()
    #expect(second == packet(5000))
  }

  @Test func headersReadBackAsWritten() throws {
    for command: Command in [.login, .logout, .ping, .ended, .pathChallenge, .message, .receipt] {
      var bytes: [UInt8] = []
      PacketWriter.append(command, flags: [.response, .error], sequence: 0xFFFE, to: &bytes) { $0 += [1, 2, 3] }
      let header = try PacketHeader(reading: bytes.span, limit: 100)
      #expect(header.command == command && header.length == 19 && header.sequence == 0xFFFE)
      #expect(header.flags == [.response, .error])
      PacketWriter.wantReceipt(in: &bytes, packetAt: 0)
      #expect(try PacketHeader(reading: bytes.span, limit: 100).flags == [.response, .error, .receiptWanted])
    }
  }

  @Test func anUnknownCommandIsNoError() throws {
    var bytes: [UInt8] = []
    PacketWriter.append(service: 9, number: 77, flags: [], sequence: 0, to: &bytes) { _ in }
    #expect(try PacketHeader(reading: bytes.span, limit: 100).command == nil)
  }
}
