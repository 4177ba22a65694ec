import Glibc
import SimpConnection
import SimpCore
import SimpStore

/// A program of the tests: works on a store until it is killed, and tells on standard output what is done.
///
///     store-rig hold PATH            opens it and waits
///     store-rig send PATH            sends 1, 2, 3 … to bob; `kept N` after the commit of each batch
///     store-rig take PATH manual     1, 2, 3 … come from alice and are taken; `got N`, and when acknowledged `done N`
///     store-rig take PATH automatic  the same, each acknowledged as it is got
///     store-rig rate PATH BATCH      commits for 3 seconds, BATCH messages of 128 bytes at a time; tells messages a second
///     store-rig chat PATH SERVER TOKEN PIN COUNT SHARE KILL
///                                    sends 1, 2, 3 … up to COUNT to bob with the library, at most SHARE of them in this
///                                    life, and ends when all COUNT are delivered; kills itself KILL microseconds after
///                                    its start, or with a minus sign after the first commit; never when it is 0
///     store-rig fill PATH BYTES      sends until its files may not grow beyond BYTES, then says why it ended
@main
struct Main {
  static func main() async {
    let arguments = CommandLine.arguments
    if arguments[1] == "chat" { return await chat(arguments) }
    do throws(StoreError) {
      if arguments[1] == "fill" { limitFiles(UInt(arguments[3]) ?? 0) }
      let store = try MessageStore(path: arguments[2])
      switch arguments[1] {
      case "hold":
        say("open")
        while true { pause() }
      case "send": try send(store)
      case "take": try take(store, isManual: arguments[3] == "manual")
      case "fill": try fill(store)
      case "rate": try rate(store, batch: Int(arguments[3]) ?? 1)
      default: exit(2)
      }
    } catch {
      say("\(error)")
      exit(1)
    }
  }

  /// At once, by one system call: what was said before the process is killed is said.
  private static func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    // SAFETY: writes out of `bytes` only, which outlives the call.
    _ = unsafe bytes.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
  }

  private static func limitFiles(_ bytes: UInt) {
    signal(SIGXFSZ, SIG_IGN)
    var limit = rlimit(rlim_cur: rlim_t(bytes), rlim_max: rlim_t(bytes))
    unsafe setrlimit(__rlimit_resource_t(1), &limit)  // RLIMIT_FSIZE
  }

  private static func send(_ store: MessageStore) throws(StoreError) {
    var next = store.contents.outbox.nextOrders.first?.order ?? 1
    while true {
      var batch = StoreBatch()
      for _ in 0..<Int.random(in: 1...8) {
        batch.sent.append((MessageContent(text: "\(next)"), "bob"))
        next += 1
      }
      // A final receipt for the lowest, sometimes.
      if next % 3 == 0, next > 100 { batch.finished = [next - 90] }
      _ = try store.commit(batch)
      say("kept \(next - 1)")
    }
  }

  private static func take(_ store: MessageStore, isManual: Bool) throws(StoreError) {
    var next = store.contents.marks.first?.map.end ?? 1
    var waiting = store.contents.received
    var batch = StoreBatch()
    // Told the store late: most of the time the log alone knows them.
    var told = StoreBatch()
    while true {
      if Int.random(in: 0..<5) == 0 {
        (batch.handedOver, batch.acknowledged) = (told.handedOver, told.acknowledged)
        told = StoreBatch()
      }
      for _ in 0..<Int.random(in: 0...8) {
        batch.received.append(message(next))
        next += 1
      }
      let ids = try store.commit(batch).received
      waiting += zip(ids, batch.received).map { ReceivedMessage(id: $0, message: $1) }
      batch = StoreBatch()
      for _ in 0..<Int.random(in: 0...8) where !waiting.isEmpty {
        let message = waiting.removeFirst()
        if isManual {
          try store.handover.noteHandedOver(message.id)
          told.handedOver.append(message.id)
          say("got \(message.message.order)\(message.isRedelivered ? " again" : "")")
        }
        try store.handover.noteAcknowledged(message.id)
        told.acknowledged.append(message.id)
        say(isManual ? "done \(message.message.order)" : "got \(message.message.order)")
      }
    }
  }

  private static func message(_ order: UInt64) -> IncomingMessage {
    let bytes = EncodedMessage(
      MessageContent(text: "\(order)"), messageId: 1 << 40 | order, order: order, toUser: "bob")
    let relayed = EncodedMessage(
      relaying: bytes.bytes.span.extracting(WireLimits.headerBytes...), from: "alice", serverTime: 1)
    do throws(WireError) {
      return try IncomingMessage(
        reading: relayed.bytes.span.extracting(WireLimits.headerBytes...), transport: .udp)
    } catch {
      preconditionFailure("a message of our own: \(error)")
    }
  }

  private static func chat(_ arguments: [String]) async {
    let (count, share) = (UInt64(arguments[6]) ?? 0, UInt64(arguments[7]) ?? 0)
    let instant = Int(arguments[8]) ?? 0
    if instant > 0 { killMyself(after: instant) }
    var configuration = SIMPConnection.Configuration()
    configuration.store = arguments[2]
    configuration.tls = .pinned(arguments[5])
    configuration.connectTimeout = .seconds(60)
    do throws(SIMPError) {
      let connection = try SIMPConnection(to: arguments[3], token: arguments[4], configuration: configuration)
      try await connection.connected()
      var next = connection.lastOrder(to: "bob") + 1
      let last = min(count, next - 1 + share)
      var isFirst = true
      while next <= last {
        let receipt = try connection.post("\(next)", to: "bob")
        if isFirst {
          try await receipt.kept()
          if instant < 0 { killMyself(after: -instant) }
          isFirst = false
        }
        next += 1
      }
      try await connection.drain(timeout: .seconds(600))
      // A life that has done its share waits for its end, whatever it is.
      if instant != 0 { while true { pause() } }
      await connection.close()
    } catch {
      say("\(error.code): \(error)")
      exit(1)
    }
  }

  private static func killMyself(after microseconds: Int) {
    // Nobody handles SIGALRM: the kernel ends the process as for SIGKILL, in the middle of whatever it does.
    var timer = itimerval()
    timer.it_value = timeval(tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000)
    unsafe setitimer(__itimer_which_t(ITIMER_REAL.rawValue), &timer, nil)
  }

  private static func rate(_ store: MessageStore, batch count: Int) throws(StoreError) {
    let text = String(repeating: "x", count: 128)
    let began = ContinuousClock.now
    var sent = 0
    var finished: [UInt64] = []
    while ContinuousClock.now - began < .seconds(3) {
      var batch = StoreBatch()
      for _ in 0..<count { batch.sent.append((MessageContent(text: text), "bob")) }
      // As in use: what was sent before is finished by now.
      batch.finished = finished
      finished = try store.commit(batch).sent.map(\.counter)
      sent += count
    }
    let seconds = Double((ContinuousClock.now - began) / .milliseconds(1)) / 1000
    say("\(count) a commit: \(Int(Double(sent) / seconds)) messages/s")
  }

  private static func fill(_ store: MessageStore) throws(StoreError) {
    while true {
      var batch = StoreBatch()
      let text = String(repeating: "x", count: 4000)
      batch.sent = [(MessageContent(text: text), "bob")]
      let order = try store.commit(batch).sent[0].order
      say("kept \(order)")
    }
  }
}
