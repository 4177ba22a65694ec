import Glibc
import Testing

/// Every input that fuzzing kept, through its target, without libFuzzer.
@Suite struct ReplayTests {
  @Test(arguments: FuzzTarget.all.map(\.name)) func corpus(name: String) throws {
    let files = Self.files(in: "Corpus/\(name)")
    #expect(!files.isEmpty, "\(name) has no corpus: Tests/Fuzz/run \(name) makes one")
    try replay(files, name)
  }

  /// Inputs that once broke something.
  @Test(arguments: FuzzTarget.all.map(\.name)) func crashers(name: String) throws {
    try replay(Self.files(in: "Crashers/\(name)"), name)
  }

  @Test(arguments: FuzzTarget.all.map(\.name)) func seeds(name: String) throws {
    let target = try #require(FuzzTarget.all.first { $0.name == name })
    let seeds = target.seeds()
    #expect(!seeds.isEmpty)
    for (index, seed) in seeds.enumerated() {
      #expect(seed.count <= target.maximumBytes)
      #expect(throws: Never.self, "seed \(index)") { try target.run(seed) }
    }
  }

  /// A target whose name is wrong somewhere would be passed over in silence.
  @Test func eachDirectoryHasItsTarget() {
    let names = Set(FuzzTarget.all.map(\.name))
    #expect(names.count == FuzzTarget.all.count)
    #expect(Set(Self.entries(of: "Corpus")) == names)
    #expect(Set(Self.entries(of: "Crashers")).isSubset(of: names))
    #expect(Set(Self.entries(of: "Planted").map { String($0.prefix { $0 != "." }) }) == names)
  }

  private func replay(_ files: [String], _ name: String) throws {
    let target = try #require(FuzzTarget.all.first { $0.name == name })
    for file in files {
      let input = try #require(Self.contents(of: file))
      #expect(throws: Never.self, "\(file)") { try target.run(input) }
    }
  }

  // MARK: - Files

  private static let root: String = {
    let here = #filePath.split(separator: "/").dropLast(2)
    return "/" + here.joined(separator: "/")
  }()

  private static func files(in directory: String) -> [String] {
    entries(of: directory).map { "\(root)/\(directory)/\($0)" }
  }

  private static func entries(of directory: String) -> [String] {
    guard let handle = unsafe opendir("\(root)/\(directory)") else { return [] }
    defer { unsafe closedir(handle) }
    var names: [String] = []
    while let entry = unsafe readdir(handle) {
      // SAFETY: the name ends with a zero and lives until the next call.
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { field in
        unsafe field.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names.sorted()
  }

  private static func contents(of path: String) -> [UInt8]? {
    guard let file = unsafe fopen(path, "r") else { return nil }
    defer { unsafe fclose(file) }
    // BOUND: inputs are under a KiB.
    var bytes = [UInt8](repeating: 0, count: 65536)
    let count = unsafe fread(&bytes, 1, bytes.count, file)
    return Array(bytes.prefix(count))
  }
}
