import SimpSupport
import Synchronization
import Testing

@Suite struct LogTests {
  final class Lines: Sendable {
    private let kept = Mutex<[String]>([])
    func append(_ line: String) { kept.withLock { $0.append(line) } }
    var all: [String] { kept.withLock { $0 } }
    /// Without the time in front.
    var texts: [String] { all.map { String($0.drop { $0 != " " }.dropFirst()) } }
  }

  @Test func oneLineAnEvent() {
    let lines = Lines()
    let log = Log(level: .debug) { lines.append($0) }
    log.info("session-opened", ["user": "bob", "device": 3, "why": "a b", "empty": ""])
    log.error("bad", ["text": "line\nbreak \u{1B}[2J\"", "pair": "a=b", "name": "ü"])
    log.warn("plain")
    log.debug("deep", ["n": UInt64.max])
    #expect(
      lines.texts == [
        "info session-opened user=bob device=3 why=\"a b\" empty=\"\"\n",
        "error bad text=\"line\\nbreak \\u{1b}[2J\\\"\" pair=\"a=b\" name=\"ü\"\n",
        "warn plain\n",
        "debug deep n=18446744073709551615\n",
      ])
    #expect(lines.all.allSatisfy { $0.dropFirst(23).hasPrefix("Z ") && $0.dropFirst(10).hasPrefix("T") })
  }

  @Test func levelsThatAreOffCostNothing() {
    let lines = Lines()
    let log = Log(level: .warn) { lines.append($0) }
    var evaluated = 0
    func field() -> Int {
      evaluated += 1
      return evaluated
    }
    log.info("no", ["n": field()])
    log.debug("no", ["n": field()])
    #expect(evaluated == 0)
    log.warn("yes", ["n": field()])
    log.error("yes", ["n": field()])
    #expect(lines.texts == ["warn yes n=1\n", "error yes n=2\n"])
    log.level = .debug
    #expect(log.isOn(.debug))
    log.debug("now", ["n": field()])
    #expect(lines.all.count == 3)
  }

  @Test func levelNames() {
    #expect(Log.Level.allCases.map(\.name) == ["error", "warn", "info", "debug"])
    #expect(Log.Level(name: "debug") == .debug)
    #expect(Log.Level(name: "loud") == nil)
  }

  @Test func linesOfManyTasksStayWhole() async {
    let lines = Lines()
    let log = Log { lines.append($0) }
    await withTaskGroup { group in
      for task in 0..<8 {
        group.addTask { for number in 0..<100 { log.info("n", ["task": task, "number": number]) } }
      }
    }
    #expect(Set(lines.texts) == Set((0..<8).flatMap { t in (0..<100).map { "info n task=\(t) number=\($0)\n" } }))
    #expect(lines.all.count == 800)
  }

  @Test func countersCount() async {
    let registry = CounterRegistry()
    let counter = registry.counter("datagrams_received")
    registry.counter("bytes_sent").add(7)
    await withTaskGroup { group in
      for _ in 0..<4 { group.addTask { for _ in 0..<1000 { registry.counter("datagrams_received").add() } } }
    }
    #expect(counter.value == 4000)
    #expect(registry.values == ["bytes_sent": 7, "datagrams_received": 4000])
    #expect(registry.text == "bytes_sent 7\ndatagrams_received 4000\n")
  }
}
