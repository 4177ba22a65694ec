import SimpCore
import SimpIO
import Testing

@Suite struct ResolverTests {
  private func resolve(_ host: String) throws -> Result<[PeerAddress], IOError>? {
    var answer: Result<[PeerAddress], IOError>?
    try withLoop { loop in
      var isInside = true
      Resolver.resolve(host: host, port: 7467, loop: loop) { result in
        #expect(!isInside, "the completion came from inside the call")
        answer = result
        loop.stop()
      }
      isInside = false
    }
    return answer
  }

  @Test(arguments: ["127.0.0.1", "::1", "[::1]"])
  func literalsNeedNoLookup(host: String) throws {
    let expected = try #require(PeerAddress(literal: host, port: 7467))
    #expect(try resolve(host) == .success([expected]))
  }

  @Test func localhostIsThisMachine() throws {
    let addresses = try #require(try resolve("localhost")).get()
    #expect(!addresses.isEmpty)
    for address in addresses {
      #expect(address.isLoopback)
      #expect(address.port == 7467)
    }
  }

  @Test(arguments: ["", "[::1", "a\0b"])
  func whatCannotBeANameIsRefusedAtOnce(host: String) throws {
    let answer = try #require(try resolve(host))
    #expect(throws: IOError.self) { try answer.get() }
  }

  @Test func aNameThatIsNotThereSaysWhatToDo() throws {
    // A label of over 63 bytes is refused before any name server is asked.
    let answer = try #require(try resolve(String(repeating: "a", count: 64) + ".invalid"))
    guard case .failure(let error) = answer else {
      Issue.record("found: \(answer)")
      return
    }
    #expect(error.description.contains("look up 'aaa"))
    #expect(error.description.contains("is the name spelled right"))
  }

  @Test func aLoopThatClosesForgetsItsLookups() throws {
    final class Held {}
    weak var held: Held?
    let loop = try EventLoop()
    do {
      let object = Held()
      held = object
      Resolver.resolve(host: "localhost", port: 1, loop: loop) { _ in
        _ = object
        Issue.record("a lookup of a closed loop was answered")
      }
    }
    loop.close()
    #expect(held == nil)
  }
}
