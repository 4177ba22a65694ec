import Glibc
import Testing

@testable import SimpSupport

@Suite struct ConfigurationTests {
  @Test func everyFormOfALine() throws {
    let file = try ConfigurationFile(
      name: "f",
      text: """
        # a comment
        port 1
          listen = 127.0.0.1   # another
        a=b
        key\t=\tsome words  
        color #red

        path "/with # and  \\"quotes\\" \\\\ "  # third
        empty ""\r
        dns a#b
        """.replacing("color #red\n", with: ""))
    #expect(file.entries.map(\.key) == ["port", "listen", "a", "key", "path", "empty", "dns"])
    #expect(
      file.entries.map(\.value)
        == ["1", "127.0.0.1", "b", "some words", "/with # and  \"quotes\" \\ ", "", "a#b"])
    #expect(file.entries.map(\.line) == [2, 3, 4, 5, 7, 8, 9])
  }

  @Test(arguments: [
    ("port", "f:1: port has no value; write: port VALUE"),
    ("a 1\nport =", "f:2: port has no value; write: port VALUE"),
    ("port # 1", "f:1: port has no value; write: port VALUE"),
    ("= 1", "f:1: a name is missing before the ="),
    ("a 1\r\n\r\na 2", "f:3: a is set on line 1 already"),
    ("a \"b", "f:1: the closing quote is missing"),
    ("a \"b\" c", "f:1: there is more after the closing quote"),
    ("a \"\\n\"", "f:1: inside quotes a \\ stands only before \" or \\"),
  ])
  func mistakes(text: String, message: String) {
    #expect(throws: UsageError(message)) { try ConfigurationFile(name: "f", text: text) }
  }

  @Test func filesFromTheDisk() throws {
    var template = Array("/tmp/simp-conf-XXXXXX".utf8CString)
    let descriptor = unsafe mkstemp(&template)
    let path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    defer { unsafe unlink(path) }
    unsafe _ = write(descriptor, "port 5\n", 7)
    #expect(try ConfigurationFile.load(path: path).entries == [.init(key: "port", value: "5", line: 1)])
    unsafe _ = write(descriptor, [0xC3, 0x28] as [UInt8], 2)
    #expect(throws: UsageError("\(path): not a UTF-8 text")) { try ConfigurationFile.load(path: path) }
    ftruncate(descriptor, ConfigurationFile.maximumBytes + 1)
    #expect(throws: UsageError("\(path): longer than 1048576 bytes")) { try ConfigurationFile.load(path: path) }
    close(descriptor)
    #expect(throws: UsageError("/nonexistent/x: No such file or directory")) {
      try ConfigurationFile.load(path: "/nonexistent/x")
    }
    #expect(throws: UsageError("/tmp: Is a directory")) { try ConfigurationFile.load(path: "/tmp") }
  }
}

@Suite struct SettingsTests {
  let flags = [
    Flag("port", placeholder: "PORT", default: "7467", isSetting: true, help: ""),
    Flag("timeout", placeholder: "TIME", isSetting: true, help: ""),
    Flag("loss", placeholder: "PART", isSetting: true, help: ""),
    Flag("udp-only", isSetting: true, help: ""),
    Flag("json", help: ""),
  ]

  @Test func theFirstPlaceWins() throws {
    let file = "port 1"
    #expect(try settings([]).integer("port") == 7467)
    #expect(try settings([], file: file).integer("port") == 1)
    #expect(try settings([], file: file, environment: ["SIMP_PORT": "2"]).integer("port") == 2)
    #expect(try settings(["--port=3"], file: file, environment: ["SIMP_PORT": "2"]).integer("port") == 3)
    #expect(try settings([], file: file, environment: ["SIMP_PORT": ""]).integer("port") == 1)
    #expect(try settings([]).string("timeout") == nil)
  }

  @Test func onlySettingsComeFromElsewhere() throws {
    #expect(try settings([], environment: ["SIMP_JSON": "yes"]).isOn("json") == false)
    #expect(try settings(["--json"]).isOn("json"))
    #expect(throws: UsageError("f:1: unknown setting \"json\"")) { try settings([], file: "json yes") }
    #expect(throws: UsageError("f:1: unknown setting \"prot\"; did you mean port?")) {
      try settings([], file: "prot 1")
    }
  }

  @Test func messagesNameThePlace() {
    #expect(throws: UsageError("--port: \"x\" is no whole number from 1 to 65535")) {
      try settings(["--port=x"]).integer("port", in: 1...65_535)
    }
    #expect(throws: UsageError("SIMP_PORT: \"65536\" is no whole number from 1 to 65535")) {
      try settings([], environment: ["SIMP_PORT": "65536"]).integer("port", in: 1...65_535)
    }
    #expect(throws: UsageError("f:2: port: \"-1\" is no whole number from 0")) {
      try settings([], file: "\nport -1").integer("port")
    }
    #expect(throws: UsageError("SIMP_UDP_ONLY: \"maybe\" is neither yes nor no")) {
      try settings([], environment: ["SIMP_UDP_ONLY": "maybe"]).isOn("udp-only")
    }
    #expect(throws: UsageError("--timeout: 2h is out of the range of 1.00 s to 1 h 0 min")) {
      try settings(["--timeout=2h"]).duration("timeout", in: .seconds(1) ... .seconds(3600))
    }
    #expect(throws: UsageError("--port: \"9\" is none of 1, 2")) {
      try settings(["--port=9"]).choice("port", of: ["1", "2"])
    }
  }

  @Test func kindsOfValues() throws {
    let file = "loss 5%\nudp-only off\ntimeout 90s"
    #expect(try settings([], file: file).number("loss", in: 0...1) == 0.05)
    #expect(try settings(["--loss=0.5"], file: file).number("loss", in: 0...1) == 0.5)
    for bad in ["101%", "x", "", "nan", "%", "-1"] {
      #expect(throws: UsageError.self) { try settings(["--loss=\(bad)"]).number("loss", in: 0...1) }
    }
    #expect(try settings([], file: file).isOn("udp-only") == false)
    #expect(try settings(["--udp-only"], file: file).isOn("udp-only"))
    #expect(try settings([], file: file).duration("timeout") == .seconds(90))
    #expect(try settings([], file: file).choice("timeout", of: ["90s"]) == "90s")
    #expect(try settings([], file: file).origin("timeout") == "f:3: timeout")
  }

  private func settings(
    _ words: [String], file: String? = nil, environment: [String: String] = [:]
  ) throws(UsageError) -> Settings {
    let arguments = try ArgumentReader(flags: flags).read(words)
    var read: ConfigurationFile?
    if let file { read = try ConfigurationFile(name: "f", text: file) }
    return try Settings(flags: flags, arguments: arguments, file: read) { environment[$0] }
  }
}
