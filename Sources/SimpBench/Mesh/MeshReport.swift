internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// What a run of `mesh` found.
struct MeshReport: Sendable {
  var plan = MeshPlan()
  var server = ""
  var verdict = Verdict()
  var tally = Mesh.Tally()
  /// Of the client core, for information; the verdict does not use them.
  var counters = ChannelCounters()
  /// From the first message to the last arrival, seconds.
  var elapsed = 0.0
  var loginsPerSecond = 0.0
  /// Bytes of resident memory that a connection took, here and in the server, idle and with UDP.
  var ownMemory = 0
  var serverMemory: Int?
  var usage = UsageMeter.Usage()
  var pathsUp = 0
  var isInterrupted = false
  /// How datagrams were sealed; nil without UDP.
  var cipher: String?
  /// How TCP was encrypted; nil with TLS off.
  var tls: String?
  var failure: SIMPError?

  mutating func add(_ snapshot: Mesh.Snapshot, start: Instant) {
    verdict = snapshot.verdict
    tally = snapshot.tally
    counters = snapshot.counters
    pathsUp = snapshot.pathsUp
    failure = snapshot.failure
    elapsed = max(0, Double((snapshot.tally.lastArrival - start).nanoseconds) / 1e9)
    cipher =
      snapshot.cipher == 0 ? nil : snapshot.cipher == AEADProtection.aes128GCM ? "AES-128-GCM" : "ChaCha20-Poly1305"
    tls = snapshot.tls.map { "TLS 1.3, \($0)" }
  }

  /// Delivered a second, up to the last arrival.
  var rate: Double { elapsed > 0 ? Double(verdict.delivered) / elapsed : 0 }

  var exitCode: Int32 {
    if !verdict.isGood { return ExitCode.notDelivered }
    return failure == nil && verdict.sent > 0 ? ExitCode.ok : ExitCode.failed
  }

  /// Prints it on standard output.
  ///
  /// - Returns: the exit status.
  func print(asJSON: Bool) throws(OutputWriter.Failure) -> Int32 {
    if let failure { Terminal.say("simp-bench: a connection ended: \(printable(failure.message))") }
    try OutputWriter.standardOutput.line(asJSON ? json.description : text)
    return exitCode
  }

  // MARK: - For programs

  var json: JSONValue {
    var members: [JSONValue.Member] = [
      .init("sent", .unsigned(verdict.sent)), .init("delivered", .unsigned(verdict.delivered)),
      .init("duplicated", .unsigned(verdict.duplicated)), .init("out_of_order", .unsigned(verdict.outOfOrder)),
      .init("lost", .unsigned(verdict.lost)), .init("retransmitted", .unsigned(counters.retransmissions)),
      .init("by_tcp", .unsigned(tally.byTCP)), .init("rate_per_s", .number(rate, digits: 1)),
      .init("latency_ms", tally.latency.json),
      .init("corrupt", .unsigned(verdict.corrupt)), .init("misdirected", .unsigned(verdict.misdirected)),
      .init("verdict", .string(verdict.isGood ? "good" : "bad")),
      .init("interrupted", .bool(isInterrupted)),
      .init("receipts", .unsigned(tally.receipts)), .init("refused", .unsigned(tally.refused)),
      .init("later", .unsigned(tally.later)), .init("reconnects", .unsigned(tally.losses)),
      .init("escalated", .unsigned(counters.messagesEscalated)),
      .init("message_bytes", .unsigned(counters.messageBytesSent)),
      .init("message_bytes_needed", .unsigned(counters.messageBytesNeeded)),
      .init("receipt_bytes", .unsigned(counters.receiptBytesSent)),
      .init("datagrams_sent", .unsigned(counters.datagramsSent)),
      .init("datagrams_lost", .unsigned(counters.datagramsLost)),
      .init("datagrams_spurious", .unsigned(counters.datagramsSpurious)),
      .init("cipher", cipher.map(JSONValue.string) ?? .null),
      .init("tls", .string(tls ?? "clear")),
      .init("server", .string(server)),
      .init("connections", .integer(Int64(plan.connections))), .init("paths_up", .integer(Int64(pathsUp))),
      .init("size_bytes", .integer(Int64(plan.size))),
      .init("duration_s", .number(plan.duration.inSeconds, digits: 3)),
      .init("logins_per_s", .number(loginsPerSecond, digits: 1)),
      .init("bench_memory_kib", .number(Double(ownMemory) / 1024, digits: 1)),
      .init("server_memory_kib", serverMemory.map { .number(Double($0) / 1024, digits: 1) } ?? .null),
    ]
    if let rate = plan.rate {
      members += [.init("offered_per_s", .number(rate, digits: 1)), .init("lag_ms", tally.lag.json)]
    } else {
      members.append(.init("window", .integer(Int64(plan.window))))
    }
    members.append(.init("bench_cpu_us", perMessage(usage.own).map { .number($0, digits: 2) } ?? .null))
    members.append(
      .init("server_cpu_us", usage.server.flatMap(perMessage).map { .number($0, digits: 2) } ?? .null))
    return .object(members)
  }

  /// Microseconds of processor time for a delivered message.
  private func perMessage(_ seconds: Double) -> Double? {
    verdict.delivered > 0 ? seconds * 1e6 / Double(verdict.delivered) : nil
  }

  // MARK: - For people

  var text: String {
    var lines: [String] = []
    func line(_ name: String, _ text: String) {
      lines.append(name + String(repeating: " ", count: max(1, 12 - name.count)) + text)
    }
    let load = plan.rate.map { "\(fixed($0, digits: 0))/s offered" } ?? "\(plan.window) under way"
    line(
      "mesh",
      "\(plan.connections) connections, \(load), \(plan.size) bytes, \(DurationText.describe(plan.duration)), "
        + "server \(server)" + (isInterrupted ? ", INTERRUPTED" : ""))
    line("rate", "\(fixed(rate, digits: 0)) messages/s")
    line("latency", tally.latency.words)
    if plan.rate != nil { line("lag", tally.lag.words) }
    line("channels", "datagrams \(cipher ?? "off"), \(tls ?? "TLS clear"), \(tally.byTCP) messages came by TCP first")
    line(
      "receipts",
      "DELIVERED for \(tally.receipts) of \(verdict.sent), \(counters.retransmissions) sent again, "
        + "\(tally.later) answered LATER")
    line(
      "sessions",
      "\(fixed(loginsPerSecond, digits: 0)) logins/s, \(pathsUp) with UDP at the end, \(tally.losses) lost and made again"
    )
    let server = usage.server.flatMap(perMessage).map { ", \(fixed($0, digits: 1)) us server" } ?? ""
    line(
      "cpu", (perMessage(usage.own).map { "\(fixed($0, digits: 1)) us clients" } ?? "unknown") + "\(server) a message")
    let memory = serverMemory.map { ", \(fixed(Double($0) / 1024, digits: 1)) KiB server" } ?? ""
    line("memory", "\(fixed(Double(ownMemory) / 1024, digits: 1)) KiB clients\(memory), a connection")
    line("verdict", "\(verdict.words) (\(verdict.sent) sent, \(verdict.delivered) delivered)")
    return lines.joined(separator: "\n")
  }
}
