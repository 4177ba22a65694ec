import SimpCore
import Testing

@testable import SimpConnection

@Suite struct ShownPathTests {
  @Test func eachDirectionIsTold() {
    var path = ShownPath()
    var told: [[ShownPath.News]] = []
    for (sending, receiving) in [
      (.up, .up), (.up, .up), (.degraded, .up), (.degraded, .up), (.degraded, .degraded), (.up, .degraded), (.up, .up),
    ] as [(PathState, PathState)] {
      told.append(path.news(sending: sending, receiving: receiving))
    }
    #expect(told == [[.up], [], [.degraded], [], [.degraded], [.degraded], [.up]])
  }

  @Test func aPathThatComesBackIsToldAnew() {
    var path = ShownPath()
    _ = path.news(sending: .degraded, receiving: .up)
    path.reset()
    let again = path.news(sending: .degraded, receiving: .up)
    let then = path.news(sending: .up, receiving: .up)
    #expect(again == [.up, .degraded] && then == [.up])
  }
}
