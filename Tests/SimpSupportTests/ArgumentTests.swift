import SimpSupport
import Testing

@Suite struct ArgumentTests {
  let reader = ArgumentReader(
    flags: [
      Flag("port", short: "p", placeholder: "PORT", default: "7467", isSetting: true, help: "where to listen"),
      Flag("json", short: "j", help: "print JSON"),
      Flag("quiet", short: "q", help: "print nothing"),
      Flag("udp-port", placeholder: "PORT", isSetting: true, help: "where datagrams come"),
      Flag("help", short: "h", help: "this text"),
    ], words: 1...2)

  @Test func everyFormOfAFlag() throws {
    for form in [["--port", "1"], ["--port=1"], ["-p", "1"], ["-p1"], ["-jp1"], ["-jqp", "1"], ["--port=2", "-p1"]] {
      let arguments = try reader.read(form + ["bob"])
      #expect(arguments.value("port") == "1", "\(form)")
      #expect(arguments.words == ["bob"])
    }
    #expect(try reader.read(["bob", "--port="]).value("port") == "")
    #expect(try reader.read(["bob", "--port=a=b"]).value("port") == "a=b")
    #expect(try reader.read(["bob", "-p", "-1"]).value("port") == "-1")
  }

  @Test func switches() throws {
    let arguments = try reader.read(["-jq", "bob"])
    #expect(arguments.has("json") && arguments.has("quiet") && !arguments.has("help"))
  }

  @Test func wordsThatLookLikeFlags() throws {
    #expect(try reader.read(["--", "--port", "-x"]).words == ["--port", "-x"])
    #expect(try reader.read(["-", "--json"]).words == ["-"])
  }

  @Test(arguments: [
    (["--prot", "1", "bob"], "unknown flag --prot; did you mean --port?"),
    (["--udp=1", "bob"], "unknown flag --udp; did you mean --udp-port?"),
    (["--frobnicate", "bob"], "unknown flag --frobnicate; see --help"),
    (["-x", "bob"], "unknown flag -x; see --help"),
    (["bob", "--port"], "--port needs a value: --port PORT"),
    (["bob", "-p"], "-p needs a value: -p PORT"),
    (["bob", "--json=1"], "--json is a switch and takes no value"),
    (["--json"], "something is missing after \"the command\"; see --help"),
    (["a", "b", "c"], "one word too many: \"c\"; see --help"),
  ])
  func mistakes(words: [String], message: String) {
    #expect(throws: UsageError(message)) { try reader.read(words) }
  }

  @Test func helpNeedsNoWords() throws {
    #expect(try reader.read(["--help"]).has("help"))
  }

  @Test func helpText() {
    #expect(
      reader.help == """
          -p, --port PORT      where to listen (7467)
          -j, --json           print JSON
          -q, --quiet          print nothing
              --udp-port PORT  where datagrams come
          -h, --help           this text

        """)
  }

  @Test func nearestWords() {
    let words = ["listen", "send", "token", "ping", "chat"]
    for (typed, meant) in [
      ("lisen", "listen"), ("sedn", "send"), ("tokens", "token"), ("pnig", "ping"), ("lis", "listen"),
      ("sendd", "send"),
    ] {
      #expect(nearest(to: typed, among: words) == meant)
    }
    #expect(nearest(to: "xyz", among: words) == nil)
    #expect(nearest(to: "", among: words) == nil)
    #expect(nearest(to: "send", among: []) == nil)
  }
}
