internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// `simp send USER [TEXT]`.
enum SendCommand {
  static let subcommand = Subcommand(
    "send", words: "USER [TEXT]", wordCount: 1...2, summary: "sends TEXT, or each line of standard input",
    flags: Access.flags + [
      Access.storeFlag,
      Flag(
        "timeout", placeholder: "TIME",
        help: "give up that long after the last line (TEXT 30s, else 5m)"),
      Flag(
        "wait", placeholder: "STATE",
        help: "a line is done when it is stored or delivered (stored), or delivered only (delivered)"),
      Flag("quiet", short: "q", help: "print only what went wrong"),
      Flag("verbose", short: "v", help: "print each line's end, how it came there, and the connection's states"),
    ],
    notes: """
      Ends with 0 when every line is delivered, or stored for a recipient who is away; with --wait delivered
      when he has taken them all. It connects anew by itself meanwhile. Else it says which lines are not
      delivered, and ends with 6; 5 when the time was over, 130 when interrupted. With --store those that are
      not stored stay in the file, also when the program is killed, and whoever sends with it next delivers
      them first.

      examples: simp send bob 'hello'
                simp send bob < report.txt
      """
  ) { settings, words throws(UsageError) in
    try UsageError.checkUser(words[0])
    var access = try Access(settings)
    access.configuration.store = settings.string("store")
    let text = words.count > 1 ? words[1] : nil
    let timeout = try settings.duration("timeout") ?? (text == nil ? .seconds(300) : .seconds(30))
    let awaitsDelivery = try settings.choice("wait", of: ["stored", "delivered"]) == "delivered"
    let isVerbose = try settings.isOn("verbose")
    let isQuiet = try settings.isOn("quiet")
    let session = Session(
      access, sendsOnly: true, isQuiet: isQuiet, isVerbose: isVerbose, undone: "not delivered")
    return await session.run { connection in
      let input = try text == nil ? StandardInput() : nil
      let run = SendRun(
        connection: connection, user: words[0], timeout: timeout, awaitsDelivery: awaitsDelivery,
        showsEach: !isQuiet && (isVerbose || text != nil || Terminal.standardInputIsTerminal),
        explains: isVerbose, showsSum: !isQuiet && text == nil,
        showsProgress: !isQuiet && !isVerbose && text == nil && Terminal.standardErrorIsTerminal
          && !Terminal.standardInputIsTerminal)
      return await run.run(text: text, input: input)
    }
  }
}
