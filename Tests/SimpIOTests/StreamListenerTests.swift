import Glibc
import SimpCore
import Testing

@testable import SimpIO

@Suite struct StreamListenerTests {
  @Test func aTakenPortIsNamedWithARemedy() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let first = try StreamListener(loop: loop, address: .loopback(port: 0)) { _, _ in }
    let address = first.localAddress
    let error = #expect(throws: IOError.self) {
      _ = try StreamListener(loop: loop, address: address) { _, _ in }
    }
    #expect(error?.isAddressInUse == true)
    #expect(error?.description.contains("\(address)") == true)
    #expect(error?.description.contains("choose another port") == true)
    #expect(throws: IOError.self) { try StreamListener.checkFree(address) }
    first.close()
    first.close()
    try StreamListener.checkFree(address)
    _ = try StreamListener(loop: loop, address: address) { _, _ in }
  }

  /// As a child has one between fork and exec.
  @Test func aCopyOfTheDescriptorDoesNotKeepThePort() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { _, _ in }
    let address = listener.localAddress
    let descriptor = try #require((3..<4096).first { PeerAddress.local(of: $0) == address })
    let copy = dup(descriptor)
    defer { close(copy) }
    listener.close()
    #expect(copy >= 0)
    try StreamListener.checkFree(address)
    _ = try StreamListener(loop: loop, address: address) { _, _ in }
  }

  @Test func sharedPortsAreSeenOnlyByTheCheck() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let first = try StreamListener(loop: loop, address: .loopback(port: 0), reusePort: true) { _, _ in }
    _ = try StreamListener(loop: loop, address: first.localAddress, reusePort: true) { _, _ in }
    #expect(throws: IOError.self) { try StreamListener.checkFree(first.localAddress) }
  }

  @Test func anAddressOfNobodyIsRefused() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let error = #expect(throws: IOError.self) {
      // TEST-NET-1 of RFC 5737: no machine has it.
      _ = try StreamListener(loop: loop, address: .v4(192, 0, 2, 1, port: 0)) { _, _ in }
    }
    #expect(error?.code == EADDRNOTAVAIL)
  }

  @Test func allIPv6AddressesTakeIPv4PeersAndShowThemSo() throws {
    var peer: PeerAddress?
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .any(.v6, port: 0)) { _, address in
        peer = address
        loop.stop()
      }
      Stream.connect(loop: loop, to: .loopback(port: listener.localAddress.port), timeout: .seconds(20)) { _ in }
    }
    #expect(peer?.family == .v4)
    #expect(peer?.host == "127.0.0.1")
  }

  /// However many wait to be taken, that takes the share of the loop's time that it is given, and no more.
  @Test func takingConnectionsLeavesTheLoopToTheOthers() throws {
    struct Batch {
      var first: Instant
      var last: Instant
      var count = 0
    }
    let awaited = 40
    var batches: [Batch] = []
    var open: Batch?
    try withLoop { loop in
      var taken = 0
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        let start = loop.now
        // What a connection costs in this test.
        while loop.now - start < .milliseconds(1) {}
        open = Batch(first: open?.first ?? start, last: loop.now, count: (open?.count ?? 0) + 1)
        taken += 1
        if taken == awaited { loop.stop() }
        stream.close()
      }
      loop.addTurnEnd {
        if let open { batches.append(open) }
        open = nil
      }
      for _ in 0..<awaited {
        Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { _ in }
      }
    }
    #expect(batches.reduce(0) { $0 + $1.count } == awaited)
    for (batch, next) in zip(batches, batches.dropFirst()) {
      #expect(batch.count <= StreamListener.acceptsPerTurn)
      // What a batch took beyond the allowance is waited for; more than this only where the clock ran on by itself.
      let owed = (batch.last - batch.first) * (StreamListener.shareOfTime - 1)
      guard owed > StreamListener.allowance else { continue }
      #expect(next.first - batch.last >= min(owed, StreamListener.longestRest), "\(batches)")
    }
    #expect(batches.contains { $0.count > 1 }, "\(batches)")
  }

  @Test func itGoesOnAfterDescriptorsRanOut() async {
    // In a process of its own: the limit would hit the other tests.
    await #expect(processExitsWith: .success) {
      var accepted: [Stream] = []
      var failures: [Instant] = []
      try withLoop { loop in
        var hoard: [Int32] = []
        let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
          accepted.append(stream)
          loop.stop()
        }
        Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(10)) { _ in }
        // The limit is hit between connecting and accepting, until the second failure.
        var limit = rlimit(rlim_cur: 64, rlim_max: 64)
        let status = unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        precondition(status == 0)
        while true {
          let fd = dup(2)
          if fd < 0 { break }
          hoard.append(fd)
        }
        loop.addTurnEnd {
          guard listener.failedAccepts > failures.count else { return }
          failures.append(loop.now)
          if failures.count == 2 { for fd in hoard { close(fd) } }
        }
      }
      precondition(accepted.count == 1, "the connection was not taken later")
      precondition(failures.count == 2, "\(failures.count) failures")
      precondition(failures[1] - failures[0] > .milliseconds(50), "it is to rest in between, not to spin")
    }
  }
}
