import SimpConnection
import SimpSupport
import Testing

@testable import SimpBench

struct PairReportTests {
  private func report(_ verdict: Verdict) -> PairReport {
    var report = PairReport(server: "private", verdict: verdict, retransmitted: 3, receipts: 9, cipher: "AES-128-GCM")
    report.plan.duration = .seconds(2)
    for milliseconds: UInt64 in 1...1000 { report.tally.latency.record(milliseconds * 1_000_000) }
    report.tally.deliveredInWindow = 1000
    report.tally.byTCP = 4
    return report
  }

  @Test func anythingWrongIsInTheExitStatus() {
    let good = Verdict(sent: 10, delivered: 10)
    #expect(report(good).exitCode == 0)
    let faults: [WritableKeyPath<Verdict, UInt64>] = [
      \.duplicated, \.outOfOrder, \.corrupt, \.misdirected, \.sent,
    ]
    for fault in faults {
      var bad = good
      bad[keyPath: fault] += 1
      #expect(report(bad).exitCode == 6)
      #expect(report(bad).json.description.contains("\"verdict\":\"bad\""))
    }
    #expect(report(Verdict()).exitCode == 1, "nothing was sent: nothing was shown")
    var encrypted = report(good)
    encrypted.tls = "TLS 1.3, X"
    #expect(encrypted.json.description.contains("\"tls\":\"TLS 1.3, X\"") && encrypted.text.contains(", TLS 1.3, X,"))
    var ended = report(good)
    ended.failure = SIMPError(.replaced, "the same user logged in elsewhere")
    #expect(ended.exitCode == 1)
  }

  @Test func theJSONHasTheNamesThatOthersRelyOn() {
    let json = report(Verdict(sent: 12, delivered: 10, duplicated: 1, outOfOrder: 2)).json.description
    #expect(
      json.hasPrefix(
        "{\"sent\":12,\"delivered\":10,\"duplicated\":1,\"out_of_order\":2,\"lost\":2,\"retransmitted\":3,\"by_tcp\":4,"
          + "\"rate_per_s\":500.0,\"latency_ms\":{\"p50\":"))
    for part in [
      "\"cipher\":\"AES-128-GCM\"", "\"tls\":\"clear\"", "\"receipts\":9", "\"late\":0", "\"max\":1000.0000}",
    ] {
      #expect(json.contains(part), "\(part) is missing")
    }
  }

  @Test func thePageForPeopleSaysWhatWasMeasuredAndHow() {
    var report = report(Verdict(sent: 12, delivered: 10))
    report.plan.rate = 600
    report.unsent = 5
    report.plan.impairment = SIMPImpairment(loss: 0.05, delay: .milliseconds(20), seed: 8)
    report.impaired = 77
    for part in [
      "1 pair, 600/s offered, 128 bytes, 2.00 s, server private", "loss 5.0 %, delay 20.0 ms", "seed 8: 77 datagrams",
      "500 messages/s", "p99.9 ", "5 due and not sent", "AES-128-GCM", "TLS clear", "4 messages came by TCP first",
      "DELIVERED for 9 of 12, 3 sent again", "verdict     2 lost (12 sent, 10 delivered)",
    ] {
      #expect(report.text.contains(part), "\(part) is missing in\n\(report.text)")
    }
  }

  @Test func whatWasMarkedLateIsCounted() {
    var first = Pair.Tally()
    first.late = 2
    var report = report(Verdict(sent: 12, delivered: 12, outOfOrder: 3))
    report.tally.add(first)
    report.tally.add(first)
    #expect(report.json.description.contains("\"late\":4,"))
    #expect(report.text.contains("(12 sent, 12 delivered, 4 marked late)"), "\(report.text)")
  }
}
