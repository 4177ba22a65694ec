internal import SimpIO
internal import SimpSupport

/// `simp-bench verify`: is anything lost, doubled, out of order, while everything breaks?
enum VerifyCommand {
  static let subcommand = Subcommand(
    "verify", summary: "many users, faults of every kind, and a verdict from the history of it all",
    flags: Target.flags + VerifyPlan.flags,
    notes: """
      A message that `send` took is lost when the run has ended and drained, and no application was shown it; doubled when
      one was shown it twice in one life of its program, or again after it acknowledged it; out of order when a later one
      of the same device and conversation was shown before it, or it came marked as late. A receipt lied when it said
      what the recipient's side does not bear out. Nothing of the verdict comes from counters of the library.

      The history is a JSON object a line: t is seconds since the run began. e is send (about to be handed over), took
      (the library has it), receipt (the state the sender saw), delivery (shown to an application), acking and acked
      (acknowledged by hand), start and end (of a program), device, fault (begin true or false), run, finish. A message
      is named by dev, life, to and n: the sender's device, the life of its program, the recipient's user, its number.

      Without --server it starts a private simp-server, and before it a relay for TCP and UDP on 127.0.0.2, which makes
      the network's faults without root. Users of client processes (--clients) have stores and acknowledge by hand.

      examples: simp-bench verify --chaos --messages 1M --duration 30m --history verify.history
                simp-bench verify --server-kill 5s --client-kill 2s --seed 7
                simp-bench verify --check verify.history

      exit status: 0 all is well, 6 the verdict is bad, 1 the run failed, or a fault that was asked for never happened
      """
  ) { settings, _ throws(UsageError) in
    if let path = settings.string("check") { return check(path, asJSON: try settings.isOn("json")) }
    let target = try Target(settings)
    var isPrivate = false
    if case .privateServer = target { isPrivate = true }
    let plan = try VerifyPlan(settings, isPrivate: isPrivate)
    do {
      let ground = try VerifyGround.make(plan, keyPath: settings.string("key"))
      let status = await BenchSession.run(target, options: ground.options(plan)) { place in
        try await VerifyRun(plan, place: place, ground: ground).run()
      }
      ground.remove()
      return status
    } catch {
      Terminal.say("simp-bench: \(error)")
      return ExitCode.failed
    }
  }

  private static func check(_ path: String, asJSON: Bool) -> Int32 {
    do {
      let verdict = try HistoryCheck.verdict(path: path)
      try OutputWriter.standardOutput.line(asJSON ? JSONValue.object(verdict.members).description : verdict.report)
      return verdict.isGood ? (verdict.sent > 0 ? ExitCode.ok : ExitCode.failed) : ExitCode.notDelivered
    } catch {
      Terminal.say("simp-bench: \(error)")
      return ExitCode.failed
    }
  }
}
