import SimpRedis
import Testing

@Suite struct AddressTests {
  @Test func everyForm() throws {
    let cases: [(String, RedisAddress, String)] = [
      ("10.0.0.1:6380", .tcp(host: "10.0.0.1", port: 6380), "10.0.0.1:6380"),
      ("redis.example.org", .tcp(host: "redis.example.org", port: 6379), "redis.example.org:6379"),
      ("[::1]:7", .tcp(host: "::1", port: 7), "[::1]:7"),
      ("[fe80::1%eth0]", .tcp(host: "fe80::1%eth0", port: 6379), "[fe80::1%eth0]:6379"),
      ("unix:/run/redis.sock", .unix(path: "/run/redis.sock"), "unix:/run/redis.sock"),
      (":secret@h:1", .tcp(host: "h", port: 1, password: "secret"), "h:1"),
      ("bob:p@ss:w@h", .tcp(host: "h", port: 6379, user: "bob", password: "p@ss:w"), "h:6379"),
      ("redis://bob:x@[::1]:1", .tcp(host: "::1", port: 1, user: "bob", password: "x"), "[::1]:1"),
    ]
    for (text, address, description) in cases {
      #expect(try RedisAddress(parsing: text) == address)
      #expect(address.description == description)
    }
  }

  @Test(arguments: [
    "", ":", ":6379", "h:", "h:0", "h:65536", "h:x", "h:-1", "::1", "[::1", "[::1]x", "[]:1", "unix:", "unix:a\0b",
    "@h", "bob@h", "bob:@h", "h h:1", "h/x:1", "unix:" + String(repeating: "x", count: 107),
  ])
  func whatIsNoAddress(text: String) {
    let error = #expect(throws: RedisError.self) { try RedisAddress(parsing: text) }
    #expect(error?.code == .invalidName)
  }

  @Test func whatIsOnThisMachine() throws {
    for text in ["unix:/a", "localhost", "127.0.0.1", "127.9.9.9:1", "[::1]"] {
      #expect(try RedisAddress(parsing: text).isOnThisMachine, "\(text)")
    }
    for text in ["10.0.0.1", "127.example.org", "127.0.0", "example.org", "[::2]"] {
      #expect(try !RedisAddress(parsing: text).isOnThisMachine, "\(text)")
    }
  }
}
