import SimpCore
import Testing

@testable import SimpIO

@Suite struct DatagramSocketTests {
  @Test(arguments: [PeerAddress.Family.v4, .v6])
  func manyBatchesArriveWholeAndInOrder(family: PeerAddress.Family) throws {
    let count = 300
    var received: [[UInt8]] = []
    var batches = 0
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(family, port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(family, port: 0))
      receiver.onReceive { bytes, from in
        #expect(from == sender.localAddress)
        received.append(Array(copying: bytes.span))
      }
      receiver.onBatchEnd = {
        batches += 1
        if received.count == count { loop.stop() }
      }
      for number in 0..<count { sender.send(pattern(at: number, count: number * 4).span, to: receiver.localAddress) }
      #expect(sender.pendingDatagrams == count % 64, "full batches leave at once")
      sender.flush()
      #expect(sender.pendingDatagrams == 0)
      #expect(sender.counters.sent == UInt64(count))
    }
    #expect(received == (0..<count).map { pattern(at: $0, count: $0 * 4) })
    #expect(batches >= 5 && batches < 50)
  }

  @Test func datagramsMayBeChangedInPlaceAndAnswered() throws {
    var answer: [UInt8] = []
    try withLoop { loop in
      let client = try DatagramSocket(loop: loop, bind: .any(port: 0))
      let server = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      server.onReceive { [unowned server] bytes, from in
        for index in bytes.indices { bytes[index] += 1 }
        server.send(bytes.span, to: from)
      }
      client.onReceive { bytes, from in
        #expect(from == server.localAddress)
        answer = Array(copying: bytes.span)
        loop.stop()
      }
      client.send([1, 2, 3].span, to: server.localAddress)
    }
    #expect(answer == [2, 3, 4])
  }

  @Test func emptyDatagramsArriveAndCount() throws {
    var sizes: [Int] = []
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      receiver.onReceive { bytes, _ in
        sizes.append(bytes.count)
        if sizes.count == 3 { loop.stop() }
      }
      for size in [0, 1, 0] { sender.send([UInt8](repeating: 9, count: size).span, to: receiver.localAddress) }
    }
    #expect(sizes == [0, 1, 0])
  }

  @Test func aFloodLetsTimersAndOtherWorkThrough() throws {
    var steps: [String] = []
    var received = 0
    try withLoop { loop in
      let socket = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      // Each datagram, empty or not, brings another two: the socket is never without one.
      let timer = loop.makeTimer {
        steps.append("timer")
        loop.execute {
          loop.stop()
        }
      }
      socket.onReceive { [unowned socket] _, from in
        received += 1
        // In the middle of the flood, however slow the machine is.
        if received == 513 { timer.arm(at: loop.now + .milliseconds(20)) }
        socket.send([], to: from)
        socket.send([1], to: from)
      }
      for _ in 0..<512 { socket.send([], to: socket.localAddress) }
    }
    #expect(steps == ["timer"])
    #expect(received > 512)
  }

  @Test func theKernelDropsWhatCannotBeOurs() throws {
    var sizes: [Int] = []
    var counted: UInt64 = 0
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      try receiver.admitOnly(sizes: 32...1200, mask: 0xFFFE, value: 0x0100)
      receiver.onReceive { [unowned receiver] bytes, _ in
        sizes.append(bytes.count)
        counted = receiver.counters.received
        if bytes.count == 1200 { loop.stop() }
      }
      func send(_ size: Int, _ first: UInt8, _ second: UInt8) {
        var bytes = [UInt8](repeating: 7, count: size)
        if size > 0 { bytes[0] = first }
        if size > 1 { bytes[1] = second }
        sender.send(bytes, to: receiver.localAddress)
      }
      for size in [0, 1, 2, 31, 1201, 1400] { send(size, 1, 0) }
      for (first, second) in [(0, 0), (2, 0), (1, 2), (1, 0x80), (0xFF, 0xFF)] as [(UInt8, UInt8)] {
        send(100, first, second)
      }
      send(32, 1, 0)
      send(100, 1, 1)
      send(1200, 1, 0)
    }
    #expect(sizes == [32, 100, 1200])
    #expect(counted == 3)
  }

  /// What comes from a refused address is not seen, whatever the family of the socket; from all others it is, also when an
  /// address is taken back.
  @Test(arguments: [(PeerAddress.Family.v4, PeerAddress.Family.v4), (.v6, .v4), (.v6, .v6)])
  func theKernelDropsWhatComesFromRefusedSources(socket: PeerAddress.Family, sender: PeerAddress.Family) throws {
    var arrived: [UInt8] = []
    try withLoop { loop in
      let receiver = try DatagramSocket(loop: loop, bind: .any(socket, port: 0))
      let to = PeerAddress.loopback(sender, port: receiver.localAddress.port)
      let source = try DatagramSocket(loop: loop, bind: .loopback(sender, port: 0))
      receiver.onReceive { bytes, _ in
        arrived.append(bytes[0])
        if bytes[0] == 9 { loop.stop() }
      }
      // The kernel looks at a datagram as it is sent: what is refused later changes nothing about it.
      func send(_ number: UInt8) {
        source.send([number, 0].span, to: to)
        source.flush()
      }
      let others = (0..<29).map { UInt32(0x0A00_0000 + $0) }
      let here: (v4: [UInt32], v6: [UInt64]) = sender == .v4 ? ([0x7F00_0001], []) : ([], [0])
      send(1)
      try receiver.refuse(v4: here.v4, v6: here.v6)
      send(2)
      try receiver.refuse(v4: others + here.v4, v6: [0x2001_0DB8_0000_0000].filter { _ in here.v6.isEmpty } + here.v6)
      send(3)
      // Half of an address, or of the other family, is none of it.
      try receiver.refuse(v4: others + (sender == .v6 ? [0] : []), v6: sender == .v4 ? [0, 1] : [1, 1 << 32])
      send(4)
      try receiver.refuse(v4: here.v4, v6: here.v6)
      send(5)
      try receiver.refuse(v4: [], v6: [])
      send(9)
      #expect(throws: IOError.self) { try receiver.refuse(v4: Array(repeating: 1, count: 33), v6: []) }
    }
    #expect(arrived == [1, 4, 9])
  }

  @Test func whatTheNetworkRefusesIsCountedAndTheRestGoes() throws {
    var received: [[UInt8]] = []
    var counters = DatagramSocket.Counters()
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let gone = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      gone.close()
      gone.close()
      receiver.onReceive { bytes, _ in
        received.append(Array(copying: bytes.span))
        guard received.count == 4 else { return }
        counters = sender.counters
        loop.stop()
      }
      sender.send([1].span, to: receiver.localAddress)
      sender.send([9].span, to: gone.localAddress)
      sender.send([UInt8](repeating: 9, count: 70_000).span, to: receiver.localAddress)
      sender.send([2].span, to: receiver.localAddress)
      sender.send([9].span, to: .loopback(.v6, port: receiver.localAddress.port))
      sender.send([9].span, to: .v4(255, 255, 255, 255, port: 9))
      sender.send([3].span, to: receiver.localAddress)
      // A report of the closed port, if one comes, must not hide what follows.
      let timer = loop.makeTimer { sender.send([4].span, to: receiver.localAddress) }
      timer.arm(at: loop.now + .milliseconds(5))
    }
    #expect(received == [[1], [2], [3], [4]])
    #expect(counters.errors == 3)
    #expect(counters.sent == 5)
  }

  @Test func longerThanAnyOfOursIsDroppedAndCounted() throws {
    var sizes: [Int] = []
    var counters = DatagramSocket.Counters()
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      receiver.onReceive { bytes, _ in
        sizes.append(bytes.count)
        counters = receiver.counters
        if sizes.count == 2 { loop.stop() }
      }
      for size in [2048, 2049, 60_000, 1] {
        sender.send([UInt8](repeating: 9, count: size).span, to: receiver.localAddress)
      }
    }
    #expect(sizes == [2048, 1])
    #expect(counters.oversized == 2)
    #expect(counters.received == 2)
  }

  @Test func aSocketForAllIPv6AddressesTalksToIPv4() throws {
    var seen: PeerAddress?
    try withLoop { loop in
      let server = try DatagramSocket(loop: loop, bind: .any(.v6, port: 0))
      let client = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      server.onReceive { [unowned server] bytes, from in
        seen = from
        server.send(bytes.span, to: from)
      }
      client.onReceive { _, _ in loop.stop() }
      client.send([1].span, to: .loopback(port: server.localAddress.port))
      #expect(client.localAddress.family == .v4)
      let expected = client.localAddress
      loop.addTurnEnd { if let seen { #expect(seen == expected) } }
    }
    #expect(seen?.family == .v4)
  }

  @Test func aPayloadByteSteersToItsSocket() throws {
    var arrived: [(socket: Int, byte: UInt8?)] = []
    try withLoop { loop in
      let first = try DatagramSocket(loop: loop, bind: .loopback(port: 0), reusePort: true)
      let others = try (1..<3).map { _ in
        try DatagramSocket(loop: loop, bind: first.localAddress, reusePort: true)
      }
      try first.steer(byAtOffset: 2, sockets: 3)
      for (number, socket) in ([first] + others).enumerated() {
        socket.onReceive { bytes, _ in
          arrived.append((number, bytes.count > 2 ? bytes[2] : nil))
          if arrived.count == 42 { loop.stop() }
        }
      }
      // From many ports: the kernel's own choice would go by the sender's address.
      for byte in 0..<40 {
        let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
        sender.send([1, 0, UInt8(byte * 5), 7].span, to: first.localAddress)
        if byte < 2 { sender.send([1, 0].span, to: first.localAddress) }
      }
    }
    #expect(arrived.count == 42)
    for (socket, byte) in arrived { #expect(socket == Int(byte ?? 0) % 3) }
    #expect(Set(arrived.map(\.socket)) == [0, 1, 2])
  }

  @Test func steeringNeedsASharedPort() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let alone = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
    #expect(throws: IOError.self) { try alone.steer(byAtOffset: 2, sockets: 2) }
  }

  @Test func aTakenPortIsNamedWithARemedy() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let first = try DatagramSocket(loop: loop, bind: .loopback(port: 0), reusePort: true)
    let address = first.localAddress
    let error = #expect(throws: IOError.self) { _ = try DatagramSocket(loop: loop, bind: address) }
    #expect(error?.isAddressInUse == true)
    #expect(error?.description.hasPrefix("listen on UDP \(address): Address already in use (") == true)
    #expect(throws: IOError.self) { try DatagramSocket.checkFree(address) }
    first.close()
    try whenCopiesAreGone { try DatagramSocket.checkFree(address) }
  }

  @Test func theBuffersGrantedAreSaid() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let small = try DatagramSocket(loop: loop, bind: .loopback(port: 0), bufferBytes: 64 << 10)
    #expect(small.receiveBufferBytes == 64 << 10)
    #expect(small.sendBufferBytes == 64 << 10)
  }

  @Test func nothingIsReceivedOrSentAfterClose() throws {
    var received = 0
    try withLoop { loop in
      let sender = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      let receiver = try DatagramSocket(loop: loop, bind: .loopback(port: 0))
      receiver.onReceive { [unowned receiver] _, _ in
        received += 1
        receiver.close()
        let timer = loop.makeTimer { loop.stop() }
        timer.arm(at: loop.now + .milliseconds(5))
      }
      receiver.onBatchEnd = { Issue.record("a batch ended after close") }
      for _ in 0..<3 { sender.send([1].span, to: receiver.localAddress) }
      sender.flush()
      sender.close()
      sender.send([1].span, to: receiver.localAddress)
      sender.flush()
      #expect(sender.counters.sent == 3)
    }
    #expect(received == 1)
  }
}

@Suite struct DatagramQueueTests {
  @Test func aFullQueueDropsItsOldest() {
    var queue = DatagramQueue()
    let limit = DatagramQueue.limit
    let count = limit * 3 + 17
    for number in 0..<count {
      queue.append(pattern(at: number, count: number % 5).span, to: .loopback(port: 9))
      #expect(queue.count == min(number + 1, limit))
    }
    #expect(queue.dropped == UInt64(count - limit))
    #expect(queue.waiting == (count - limit..<count).map { pattern(at: $0, count: $0 % 5) })
    queue.clear()
    #expect(queue.count == 0)
    #expect(queue.waiting == [])
  }
}
