import SimpCore
import Testing

@testable import SimpIO

@Suite struct TLSPipeTests {
  @Test(arguments: [1, 2, 5, 1000, Int.max])
  func bytesPassBothWaysHoweverTheyAreCut(step: Int) throws {
    let identity = try TLSIdentity()
    let pair = try identity.pair(identity.trusting())
    pair.shakeHands(step: step)
    try #require(pair.isReady, "\(String(describing: pair.clientError)) \(String(describing: pair.serverError))")
    #expect(pair.client.agreement?.cipher == "TLS_AES_128_GCM_SHA256" && pair.client.agreement == pair.server.agreement)
    let (question, answer) = (pattern(at: 0, count: 40_000), pattern(at: 999, count: 50_000))
    try pair.clientSends(question)
    try pair.serverSends(answer)
    #expect(pair.toServer.count > question.count && !pair.toServer.containsRun(of: question[..<16]))
    pair.carry(step: step)
    #expect(pair.atServer == question && pair.atClient == answer)
    #expect(pair.clientError == nil && pair.serverError == nil)
  }

  @Test func anEndIsSaidAndLeavesTheOtherDirectionOpen() throws {
    let identity = try TLSIdentity()
    let pair = try identity.pair(identity.trusting()).shakeHands()
    try pair.clientSends([1])
    pair.client.finish(wire: &pair.toServer)
    pair.carry()
    #expect(pair.server.isEnded && !pair.client.isEnded && pair.atServer == [1])
    try pair.serverSends([2, 3])
    pair.server.finish(wire: &pair.toClient)
    pair.carry()
    #expect(pair.client.isEnded && pair.atClient == [2, 3])
    // Whatever comes behind the end is not read.
    pair.clientTakes([0x99, 0x99])
    #expect(pair.clientError == nil && pair.atClient == [2, 3])
  }

  @Test func clearTextIsToldApartFromTLS() throws {
    let identity = try TLSIdentity()
    for text in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\u{40}\0\u{1}"] {
      let pair = try identity.pair(identity.trusting())
      try pair.client.start(wire: &pair.toServer)
      pair.clientTakes(Array(text.utf8))
      #expect(pair.clientError?.reason.contains("does not speak TLS") == true)
      pair.serverTakes(Array(text.utf8))
      #expect(pair.serverError?.reason == "the client does not speak TLS")
      #expect(!pair.client.isReady && !pair.server.isReady)
    }
  }

  /// A connection that sends nothing, or no TLS, costs none of OpenSSL's memory and time.
  @Test func openSSLHasNoPartInAConnectionWithoutAHello() throws {
    let identity = try TLSIdentity()
    let pair = try identity.pair(try identity.trusting())
    try pair.server.start(wire: &pair.toClient)
    #expect(!pair.server.isMade && pair.server.agreement == nil)
    let talker = identity.context.makePipe()
    var (plain, reply): ([UInt8], [UInt8]) = ([], [])
    #expect(throws: PipeError.self) { try talker.receive([0, 0, 0, 16].span, plain: &plain, reply: &reply) }
    talker.finish(wire: &reply)
    #expect(!talker.isMade && reply == [TLSPipe.alertByte, 3, 3, 0, 2, 2, 10])
    // What was in force when it was accepted holds.
    try identity.directory.makeCertificate(names: ["elsewhere"])
    try identity.context.reload()
    try pair.client.start(wire: &pair.toServer)
    pair.carry()
    #expect(pair.server.isMade && pair.isReady, "\(pair.clientError?.reason ?? "")")
  }

  @Test func garbageIsAnErrorAndNothingElse() throws {
    let identity = try TLSIdentity()
    let trusting = try identity.trusting()
    var random = SeededRandom(seed: 41)
    var errors = 0
    for _ in 0..<300 {
      let pair = try identity.pair(trusting)
      try pair.client.start(wire: &pair.toServer)
      var garbage = (0..<(6 + random.next(upTo: 600))).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      // Like a record of a handshake, whole.
      garbage.replaceSubrange(0..<3, with: [UInt8(0x15 + random.next(upTo: 2)), 3, 3])
      garbage.replaceSubrange(3..<5, with: [UInt8((garbage.count - 5) >> 8), UInt8((garbage.count - 5) & 255)])
      pair.clientTakes(garbage)
      pair.serverTakes(garbage)
      // What looks like the beginning of a long message is waited for.
      errors += (pair.clientError == nil ? 0 : 1) + (pair.serverError == nil ? 0 : 1)
      #expect(!pair.client.isReady && !pair.server.isReady && pair.atClient.isEmpty && pair.atServer.isEmpty)
    }
    #expect(errors > 590, "of 600")
  }

  /// Anywhere but in the headers of the records that are not encrypted: nothing is read of them but type and length.
  @Test func aChangedBitAnywhereInTheHandshakeEndsIt() throws {
    let identity = try TLSIdentity()
    let trusting = try identity.trusting()
    var random = SeededRandom(seed: 42)
    var length = 0
    for round in 0..<150 {
      let bit: UInt8 = 1 << UInt8(random.next(upTo: 8))
      let pair = try identity.pair(trusting)
      try pair.client.start(wire: &pair.toServer)
      if round % 2 == 0 {
        pair.toServer[5 + random.next(upTo: pair.toServer.count - 5)] ^= bit
      } else {
        pair.serverTakes(pair.toServer)
        pair.toServer = []
        length = pair.toClient.count
        // The hello, a record of 6 bytes that only old middle boxes look at, then what is encrypted.
        let helloEnd = 5 + Int(pair.toClient[3]) << 8 + Int(pair.toClient[4])
        let place = 5 + random.next(upTo: length - 11)
        pair.toClient[place < helloEnd ? place : place + 6] ^= bit
      }
      pair.carry()
      #expect(!pair.server.isReady, "round \(round)")
    }
    #expect(length > 500)
  }

  @Test func aChangedBitLaterGivesNothingToTheApplication() throws {
    let identity = try TLSIdentity()
    for place in [0, 3, 5, 10, 30] {
      let pair = try identity.pair(identity.trusting()).shakeHands()
      try pair.clientSends(pattern(at: 0, count: 64))
      pair.toServer[place] ^= 0x40
      pair.carry()
      #expect(pair.atServer.isEmpty)
      // A longer length waits for bytes that never come; everything else is found at once.
      if place != 3 { #expect(pair.serverError != nil, "\(place)") }
    }
  }

  @Test func aHandshakeWithoutEndIsCutShort() throws {
    let identity = try TLSIdentity()
    let pair = try identity.pair(identity.trusting())
    // A hello that says it has 120 000 bytes, in records of 1000.
    var hello: [UInt8] = [1, 0x01, 0xD4, 0xC0]
    var fed = 0
    while pair.serverError == nil, fed < 200_000 {
      let part = hello + [UInt8](repeating: 0, count: 1000 - hello.count)
      hello = []
      pair.serverTakes([0x16, 3, 3, 0x03, 0xE8] + part)
      fed += 1005
    }
    #expect(pair.serverError != nil && fed < 20_000, "\(fed)")
  }

  @Test func aStreamWithTLSCarriesMuchAndEnds() throws {
    let identity = try TLSIdentity()
    let trusting = try identity.trusting()
    let total = 3 << 20
    var received = 0
    var isBroken = false
    var steps: [String] = []
    try withLoop { loop in
      let listener = try StreamListener(
        loop: loop, address: .loopback(port: 0), makePipe: { identity.context.makePipe() }
      ) { stream, _ in
        stream.onBytes = { [unowned stream] bytes in stream.write(bytes) }
        stream.onClose = { error in steps.append(error == nil ? "ended" : "\(error!)") }
      }
      let pipe = try trusting.makePipe(to: "localhost", port: 1)
      Stream.connect(loop: loop, to: listener.localAddress, pipe: pipe, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else {
          steps.append("\(result)")
          return loop.stop()
        }
        stream.onBytes = { bytes in
          if Array(copying: bytes) != pattern(at: received, count: bytes.count) { isBroken = true }
          received += bytes.count
          if received == total { stream.closeAfterFlush(deadline: .seconds(20)) { loop.stop() } }
        }
        stream.write(pattern(at: 0, count: total))
      }
    }
    #expect(received == total && !isBroken && steps == ["ended"])
  }

  /// The end of TCP without close_notify counts as an end, not as an error: packets carry their length, and what has
  /// no receipt is sent again, so nobody gains by cutting a connection.
  @Test func anEndWithoutAWordIsAnEnd() throws {
    let identity = try TLSIdentity()
    let trusting = try identity.trusting()
    var heard: [UInt8] = []
    var ends: [IOError?] = []
    try withLoop { loop in
      let pipe = identity.context.makePipe()
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        // TLS by hand, so that it can be left without its farewell.
        stream.onBytes = { [unowned stream] bytes in
          var (plain, reply): ([UInt8], [UInt8]) = ([], [])
          try? pipe.receive(bytes, plain: &plain, reply: &reply)
          if pipe.isReady { try? pipe.send([7, 8].span, wire: &reply) }
          stream.write(reply)
          if pipe.isReady { stream.closeAfterFlush(deadline: .seconds(20)) }
        }
      }
      let client = try trusting.makePipe(to: "localhost", port: 1)
      Stream.connect(loop: loop, to: listener.localAddress, pipe: client, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        stream.onBytes = { heard += Array(copying: $0) }
        stream.onClose = { error in
          ends.append(error)
          #expect(!client.isEnded)
          loop.stop()
        }
      }
    }
    #expect(heard == [7, 8] && ends == [nil])
  }

  @Test func whyAStreamIsRefusedIsInItsError() throws {
    let (identity, other) = (try TLSIdentity(), try TLSIdentity())
    let trusting = try other.trusting()
    var failure: IOError?
    var serverSaw: IOError?
    try withLoop { loop in
      let listener = try StreamListener(
        loop: loop, address: .loopback(port: 0), makePipe: { identity.context.makePipe() }
      ) { stream, _ in
        stream.onBytes = { _ in }
        stream.onClose = { error in
          serverSaw = error
          loop.stop()
        }
      }
      let pipe = try trusting.makePipe(to: "localhost", port: 1)
      Stream.connect(loop: loop, to: listener.localAddress, pipe: pipe, timeout: .seconds(20)) { result in
        if case .failure(let error) = result { failure = error }
      }
    }
    #expect(failure?.isUntrusted == true)
    #expect(failure?.description.contains("signed by itself") == true)
    #expect(serverSaw?.detail?.contains("does not trust the certificate") == true, "\(String(describing: serverSaw))")
  }
}

extension [UInt8] {
  fileprivate func containsRun(of part: ArraySlice<UInt8>) -> Bool {
    (0...(count - part.count)).contains { self[$0..<($0 + part.count)] == part }
  }
}
