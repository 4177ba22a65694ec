internal import SimpConnection
internal import SimpSupport

/// What a run of `pair` found.
struct PairReport: Sendable {
  var plan = PairPlan()
  var server = ""
  var verdict = Verdict()
  var tally = Pair.Tally()
  /// Messages that were due and could not be handed over, for the outbox was full.
  var unsent: UInt64 = 0
  var usage = UsageMeter.Usage()
  var isInterrupted = false
  /// By the SDK's counters, for information; the verdict does not use them.
  var retransmitted: UInt64 = 0
  /// Messages sent twice before anything was lost.
  var redundant: UInt64 = 0
  /// Bytes that the clients sent: of messages, of the first transmission of each, and of receipts.
  var messageBytes: UInt64 = 0
  var messageBytesNeeded: UInt64 = 0
  var receiptBytes: UInt64 = 0
  var receipts: UInt64 = 0
  var impaired: UInt64 = 0
  /// How datagrams were sealed; nil without UDP.
  var cipher: String?
  /// How TCP was encrypted; nil with TLS off.
  var tls: String?
  /// Why a connection ended, if one did.
  var failure: SIMPError?

  /// Adds what a pair measured.
  mutating func add(_ pair: Pair) {
    verdict.add(pair.verdict)
    tally.add(pair.tally)
    failure = failure ?? pair.failure
    let statistics = pair.sender.statistics
    retransmitted += statistics.retransmitted
    redundant += statistics.redundantCopies
    messageBytes += statistics.messageBytesSent
    messageBytesNeeded += statistics.messageBytesNeeded
    receiptBytes += statistics.receiptBytesSent + pair.recipient.statistics.receiptBytesSent
    receipts += statistics.delivered
    impaired += statistics.datagramsImpaired + pair.recipient.statistics.datagramsImpaired
  }

  /// Delivered in the measured time, a second.
  var rate: Double {
    Double(tally.deliveredInWindow) / plan.duration.inSeconds
  }

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
      .init("lost", .unsigned(verdict.lost)), .init("retransmitted", .unsigned(retransmitted)),
      .init("by_tcp", .unsigned(tally.byTCP)), .init("rate_per_s", .number(rate, digits: 1)),
      .init("latency_ms", tally.latency.json),
      .init("corrupt", .unsigned(verdict.corrupt)), .init("misdirected", .unsigned(verdict.misdirected)),
      .init("verdict", .string(verdict.isGood ? "good" : "bad")),
      .init("interrupted", .bool(isInterrupted)),
      .init("receipts", .unsigned(receipts)), .init("late", .unsigned(tally.late)),
      .init("message_bytes", .unsigned(messageBytes)), .init("message_bytes_needed", .unsigned(messageBytesNeeded)),
      .init("receipt_bytes", .unsigned(receiptBytes)), .init("redundant", .unsigned(redundant)),
      .init("cipher", cipher.map(JSONValue.string) ?? .null),
      .init("tls", .string(tls ?? "clear")),
      .init("server", .string(server)),
      .init("pairs", .integer(Int64(plan.pairs))), .init("size_bytes", .integer(Int64(plan.size))),
      .init("duration_s", .number(plan.duration.inSeconds, digits: 3)),
    ]
    if let rate = plan.rate {
      members += [
        .init("offered_per_s", .number(rate, digits: 1)), .init("unsent", .unsigned(unsent)),
        .init("lag_ms", tally.lag.json),
        .init("latency_uncorrected_ms", tally.uncorrected.json),
      ]
    } else {
      members.append(.init("window", .integer(Int64(plan.window))))
    }
    if let impairment = plan.impairment {
      members.append(
        .init(
          "impairment",
          .object([
            "loss": .number(impairment.loss, digits: 4),
            "delay_ms": .number(impairment.delay.inSeconds * 1000, digits: 3),
            "seed": .unsigned(impairment.seed), "dropped": .unsigned(impaired),
          ])))
    }
    members.append(.init("bench_cpu_us", perMessage(usage.own).map { .number($0, digits: 2) } ?? .null))
    members.append(
      .init("server_cpu_us", usage.server.flatMap(perMessage).map { .number($0, digits: 2) } ?? .null))
    return .object(members)
  }

  /// Microseconds of processor time for a message of the measured time.
  private func perMessage(_ seconds: Double) -> Double? {
    tally.deliveredInWindow > 0 ? seconds * 1e6 / Double(tally.deliveredInWindow) : nil
  }

  // MARK: - For people

  var text: String {
    var lines: [String] = []
    func line(_ name: String, _ text: String) {
      lines.append(name + String(repeating: " ", count: max(1, 12 - name.count)) + text)
    }
    let offered = plan.rate.map { ", \(fixed($0, digits: 0))/s offered" } ?? ", \(plan.window) under way in each"
    line(
      "pair",
      "\(plan.pairs) \(plan.pairs == 1 ? "pair" : "pairs")\(offered), \(plan.size) bytes, "
        + "\(DurationText.describe(plan.duration)), server \(server)" + (isInterrupted ? ", INTERRUPTED" : ""))
    if let impairment = plan.impairment {
      line(
        "impairment",
        "loss \(fixed(impairment.loss * 100, digits: 1)) %, delay \(DurationText.describe(impairment.delay)) each way "
          + "of each client, seed \(impairment.seed): \(impaired) datagrams dropped")
    }
    line("rate", "\(fixed(rate, digits: 0)) messages/s")
    line("latency", tally.latency.words + " (from due to taken)")
    if plan.rate != nil {
      line("", tally.uncorrected.words + " (from handed over)")
      line("lag", tally.lag.words + (unsent > 0 ? "; \(unsent) due and not sent: no room" : ""))
    }
    line("channels", "datagrams \(cipher ?? "off"), \(tls ?? "TLS clear"), \(tally.byTCP) messages came by TCP first")
    let copies = redundant > 0 ? ", \(redundant) twice to be safe" : ""
    line("receipts", "DELIVERED for \(receipts) of \(verdict.sent), \(retransmitted) sent again\(copies)")
    let own = perMessage(usage.own).map { "\(fixed($0, digits: 1)) us bench" } ?? "unknown"
    let server = usage.server.flatMap(perMessage).map { ", \(fixed($0, digits: 1)) us server" } ?? ""
    line("cpu", "\(own)\(server) a message")
    let late = tally.late > 0 ? ", \(tally.late) marked late" : ""
    line("verdict", "\(verdict.words) (\(verdict.sent) sent, \(verdict.delivered) delivered\(late))")
    return lines.joined(separator: "\n")
  }
}
