internal import Glibc
internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// `simp-bench verify-client`: the clients of one process of a run of `verify`, which starts it.
enum VerifyClientCommand {
  static let subcommand = Subcommand(
    "verify-client", summary: "a part of verify, which starts it", isHidden: true,
    flags: Target.flags + VerifyPlan.loadFlags + [
      Flag("home", placeholder: "NUMBER", help: "which process of the plan"),
      Flag("life", placeholder: "NUMBER", help: "the highest of those that its users had"),
      Flag("run", placeholder: "NUMBER", help: "of the run"),
      Flag("epoch", placeholder: "NANOSECONDS", help: "when the run began"),
      Flag("directory", placeholder: "DIR", help: "of the stores; files there say when to stop"),
      Flag("history", placeholder: "FILE", help: "appended to"),
    ]
  ) { settings, _ throws(UsageError) in
    let plan = try VerifyPlan(load: settings)
    guard case .running(let address, let key, let trust) = try Target(settings),
      let home = try settings.integer("home"), let life = try settings.integer("life", in: 0...65_535),
      let run = try settings.integer("run"), let epoch = try settings.integer("epoch"),
      let directory = settings.string("directory"), let history = settings.string("history")
    else { throw UsageError("this is for verify alone") }
    do {
      let file = try HistoryFile(path: history, isNew: false)
      let recorder = HistoryRecorder(epoch: Instant(nanoseconds: UInt64(epoch)), file: file)
      // Every user of this process has a store, and the number of its device from the plan.
      let context = VerifyContext(
        plan: plan, run: UInt32(run), address: address, key: key, trust: trust, directory: directory,
        record: { recorder.record($0) }, nextDevice: { 0 })
      return try await serve(VerifyCrowd(context, home: home, life: UInt32(life)), directory)
    } catch {
      Terminal.say("simp-bench: \(error)")
      return ExitCode.failed
    }
  }

  /// What the run writes into the directory to say how far it is.
  static let stopLoad = "load-is-over"
  static let end = "run-is-over"

  private static func serve(_ crowd: VerifyCrowd, _ directory: String) async throws -> Int32 {
    let parent = getppid()
    _ = ProcessUsage.raiseFileLimit()
    func has(_ file: String) -> Bool { unsafe access("\(directory)/\(file)", F_OK) == 0 }
    let work = Task { try await crowd.run() }
    while !has(end) {
      // Nobody is left to end this one.
      guard getppid() == parent else { return ExitCode.failed }
      if let failure = crowd.failure {
        Terminal.say(failure)
        return ExitCode.failed
      }
      if has(stopLoad) { crowd.stopLoad() }
      await VerifyUser.pause(.milliseconds(50))
    }
    let deadline = Clock.now + .seconds(10)
    while crowd.unfinished > 0, Clock.now < deadline { await VerifyUser.pause(.milliseconds(20)) }
    let open = crowd.unfinished
    work.cancel()
    try await work.value
    await crowd.leave()
    guard open == 0 else {
      Terminal.say("\(open) messages have no final receipt")
      return ExitCode.notDelivered
    }
    return ExitCode.ok
  }
}
