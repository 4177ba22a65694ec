import Testing

@testable import SimpCore

/// Our bytes are those of Google's runtime, both ways.
@Suite struct GoldenTests {
  private func written(_ body: (inout [UInt8]) -> Void) -> [UInt8] {
    var bytes: [UInt8] = []
    body(&bytes)
    return bytes
  }

  @Test func controlPayloads() throws {
    let golden = try GoldenFile("messages.txt")
    for name in ["login.full", "login.minimal"] {
      let bytes = try golden(name)
      #expect(written(try Login(reading: bytes.span).append) == bytes, "\(name)")
    }
    for name in ["login_reply.full", "login_reply.without_token_expires", "login_reply.minimal"] {
      let bytes = try golden(name)
      #expect(written(try LoginReply(reading: bytes.span).append) == bytes, "\(name)")
    }
    for name in [
      "error.full", "error.without_retry_spread", "error.minimal", "ended.full", "ended.without_retry_spread",
      "ended.minimal",
    ] {
      let bytes = try golden(name)
      #expect(written(try Refusal(reading: bytes.span).append) == bytes, "\(name)")
    }
    for name in ["ping.full", "ping.minimal", "path_challenge.minimal", "path_response.full", "path_response.minimal"] {
      let bytes = try golden(name)
      let token = try TokenPayload.read(bytes.span)
      #expect(written { $0.appendField(1, fixed64: token) } == bytes, "\(name)")
    }
  }

  @Test func requestsAndAnswers() throws {
    let golden = try GoldenFile("messages.txt")
    for (name, command) in [("renew.full", Command.renew), ("kick.full", .kick), ("kick.minimal", .kick)] {
      let bytes = try golden(name)
      let request = try #require(try SessionRequest(command, reading: bytes.span))
      #expect(written(request.append) == bytes, "\(name)")
    }
    for (name, command) in [
      ("renew_reply.full", Command.renew), ("kick_reply.full", .kick), ("counters.full", .counters),
    ] {
      let bytes = try golden(name)
      let answer = try #require(try SessionAnswer(command, reading: bytes.span))
      #expect(written(answer.append) == bytes, "\(name)")
    }
    let kick = try golden("kick.full")
    #expect(try SessionRequest(.kick, reading: kick.span) == .kick(user: "mallory", reason: "a stolen token"))
    let renewed = try golden("renew_reply.full")
    #expect(
      try SessionAnswer(.renew, reading: renewed.span)
        == .renewed(expires: 1_767_229_200_000, serverTime: 1_767_225_600_000))
  }

  @Test func controlValues() throws {
    let golden = try GoldenFile("messages.txt")
    let loginFullBytes = try golden("login.full")
    let login = try Login(reading: loginFullBytes.span)
    #expect(login.token == "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln" && login.features == 1 << 63)
    #expect(login.outboxId == 0x0123_4567_89AB_CDEF && login.deviceNumber == 7 && login.sendOnly)
    #expect(login.receiveMessages == 1024 && login.receiveBytes == 4_194_304 && login.ciphers == [1, 2])
    let loginReplyFullBytes = try golden("login_reply.full")
    let reply = try LoginReply(reading: loginReplyFullBytes.span)
    #expect(reply.user == "alice" && reply.connectionId == 0x1_0203_0405 && reply.udpSecret == Array(0..<32))
    #expect(reply.serverTime == 1_767_225_600_000 && reply.node == "5f3a9c01d2e4b687" && reply.udpPort == 7468)
    let errorFullBytes = try golden("error.full")
    let refusal = try Refusal(reading: errorFullBytes.span)
    #expect(
      refusal
        == Refusal(
          .tokenExpired, "the token has expired", retryAfterMilliseconds: 250, retrySpreadMilliseconds: 2000))
    let endedFullBytes = try golden("ended.full")
    #expect(try Refusal(reading: endedFullBytes.span).retrySpreadMilliseconds == 26_667)
    let pathUpFullBytes = try golden("path_up.full")
    #expect(try PathUpPayload.read(pathUpFullBytes.span) == "[2001:db8::7]:40123")
  }

  @Test func messages() throws {
    let golden = try GoldenFile("messages.txt")
    for name in ["message.text", "message.minimal", "message.audio"] {
      let bytes = try golden(name)
      let fields = try MessageFields(reading: bytes.span)
      try fields.checkFromClient(bytes.span)
      let encoded = EncodedMessage(
        try MessageContent(fields, payload: bytes.span), messageId: fields.messageId, order: fields.order,
        toUser: fields.toUser(in: bytes.span))
      let packet = written { encoded.append(to: &$0, floor: fields.floor) }
      #expect(Array(packet[16...]) == bytes, "\(name)")
    }
  }

  @Test func aRelayAppendsAndRewritesNothing() throws {
    let golden = try GoldenFile("messages.txt")
    let sent = try golden("message.sent")
    let relayed = EncodedMessage(relaying: sent.span, from: "alice", serverTime: 1_767_225_600_003)
    #expect(try Array(relayed.bytes[16...]) == golden("message.relayed"))
    // Field order does not matter to a reader: both forms say the same.
    let messageRelayedBytes = try golden("message.relayed")
    let appended = try IncomingMessage(reading: messageRelayedBytes.span, transport: .udp)
    let messageFullBytes = try golden("message.full")
    let inOrder = try IncomingMessage(reading: messageFullBytes.span, transport: .udp)
    #expect(appended == inOrder)
    #expect(appended.from == "alice" && appended.content.text == "grüß dich, bob" && appended.order == 300)
    #expect(appended.floor == 299 && appended.device == 7 && appended.serverTime == 1_767_225_600_003)
  }

  @Test func contentIsReadWholeAndWrittenBack() throws {
    let bytes = try GoldenFile("messages.txt")("message.full")
    let fields = try MessageFields(reading: bytes.span)
    let content = try MessageContent(fields, payload: bytes.span)
    #expect(content.imageURL == "https://media.example.org/a.jpg" && content.imageScale == 1.5 && content.type == 2)
    #expect(content.custom == [0, 0xFF, 0x80] && content.time == 1_767_225_600_000)
    let attachment = try #require(content.attachment)
    #expect(attachment.url == "https://media.example.org/a.opus" && attachment.sha256 == Array(0..<32))
    #expect(attachment.size == 70_000 && attachment.mime == "audio/ogg" && attachment.durationMilliseconds == 61_500)
    #expect(attachment.width == 640 && attachment.height == 480)
    let again = EncodedMessage(content, messageId: fields.messageId, order: 300, toUser: "bob")
    let payload = Array(again.bytes[16...])
    let readBack = try MessageContent(try MessageFields(reading: payload.span), payload: payload.span)
    #expect(readBack == content)
  }

  @Test func anAttachmentWithNothingInItIsStillOne() throws {
    var content = MessageContent(text: "")
    content.attachment = Attachment()
    let payload = Array(EncodedMessage(content, messageId: 6, order: 2, toUser: "bob").bytes[16...])
    let readBack = try MessageContent(try MessageFields(reading: payload.span), payload: payload.span)
    #expect(readBack.attachment == Attachment())
  }

  @Test func aClientMayNotNameTheSender() throws {
    let bytes = try GoldenFile("messages.txt")("message.full")
    #expect(throws: WireError.fieldForbidden) { try MessageFields(reading: bytes.span).checkFromClient(bytes.span) }
  }

  @Test func anUnknownFieldIsPassedOver() throws {
    let golden = try GoldenFile("messages.txt")
    let known = try golden("message.text")
    let more = try golden("message.unknown_field")
    let fields = try MessageFields(reading: more.span)
    #expect(try fields.order == MessageFields(reading: known.span).order && fields.toUser(in: more.span) == "bob")
  }

  @Test func receipts() throws {
    let golden = try GoldenFile("messages.txt")
    for name in ["receipt.full", "receipt.minimal"] {
      let bytes = try golden(name)
      #expect(written(try Receipt(reading: bytes.span).append) == bytes, "\(name)")
    }
    for name in golden.values.keys where name.hasPrefix("outcome.") {
      let packet = written { packet in packet.appendField(2, bytes: (try? golden(name)) ?? []) }
      #expect(written(try Receipt(reading: packet.span).append) == packet, "\(name)")
    }
    let datagramsFullBytes = try golden("datagrams.full")
    let full = try DatagramReceipt(reading: datagramsFullBytes.span)
    #expect(full.ranges == [1000...1000, 699...998, 497...498] && full.delay == .microseconds(1500))
    #expect(full.answered == [998])
    let datagramsExtremeBytes = try golden("datagrams.extreme")
    let extreme = try DatagramReceipt(reading: datagramsExtremeBytes.span)
    #expect(extreme.ranges[0].upperBound == .max && extreme.ranges.count == 2)
  }

  @Test func wholePackets() throws {
    let golden = try GoldenFile("packets.txt")
    #expect(golden.values.count >= 19)
    for (name, bytes) in golden.values {
      var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytes)
      let twice = bytes + bytes
      assembler.append(twice.span)
      let first = try assembler.next()
      let second = try assembler.next()
      #expect(first == bytes && second == bytes, "\(name)")
      let header = try PacketHeader(reading: bytes.span, limit: bytes.count)
      let payload = Array(bytes[16...])
      let again = written {
        PacketWriter.append(
          service: header.service, number: header.number, flags: header.flags, sequence: header.sequence, to: &$0
        ) { $0 += payload }
      }
      #expect(again == bytes && header.command != nil, "\(name)")
    }
    let wanted = try golden("message_wanted")
    let header = try PacketHeader(reading: wanted.span, limit: wanted.count)
    #expect(header.flags == .receiptWanted)
  }

  @Test func datagramHeaders() throws {
    let golden = try GoldenFile("datagrams.txt")
    let bytes = try golden("aes.c2s.datagram")
    let header = DatagramHeader(connectionId: 0x0001_0203_0405, packetNumber: 0x0102_0304_0506_0708)
    let read = DatagramHeader(reading: bytes.span)
    #expect(read == header)
    #expect(written(header.append) == Array(bytes[..<16]))
    let next = try golden("aes.c2s.1.datagram")
    let odd = DatagramHeader(connectionId: 0x0001_0203_0405, packetNumber: 0x0102_0304_0506_0709, isOddPhase: true)
    #expect(DatagramHeader(reading: next.span) == odd && written(odd.append) == Array(next[..<16]))
    #expect(odd.connectionId == header.connectionId && odd.isOddPhase && !header.isOddPhase)
    for (offset, value) in [(0, 0), (0, 2), (1, 2), (1, 3), (1, 0x80)] {
      var other = bytes
      other[offset] = UInt8(value)
      let unknown = DatagramHeader(reading: other.span)
      #expect(unknown == nil)
    }
    let short = Array(bytes[..<31])
    let shortest = Array(bytes[..<32])
    #expect(DatagramHeader(reading: short.span) == nil)
    #expect(DatagramHeader(reading: shortest.span) != nil)
  }
}
