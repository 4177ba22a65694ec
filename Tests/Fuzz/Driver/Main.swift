import CLibFuzzer
import Glibc

/// `fuzz TARGET [libFuzzer's options and directories]`; `fuzz --list` tells names and lengths; `fuzz --seeds TARGET
/// DIRECTORY` writes the seeds.
@_cdecl("fuzz_main")
func fuzzMain(_ count: Int32, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Int32 {
  let words = CommandLine.arguments
  switch words.count > 1 ? words[1] : "" {
  case "--list":
    for target in FuzzTarget.all { print(target.name, target.maximumBytes) }
    return 0
  case "--seeds" where words.count == 4:
    return writeSeeds(of: words[2], to: words[3])
  default:
    break
  }
  // libFuzzer starts itself anew to merge, and forgets an argument that it does not know: children find the name in the
  // environment.
  var isNamed = false
  var name: String?
  if let inherited = unsafe getenv("SIMP_FUZZ_TARGET") { name = unsafe String(cString: inherited) }
  if words.count > 1, !words[1].hasPrefix("-") { (isNamed, name) = (true, words[1]) }
  guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
    print("fuzz: which target? one of \(FuzzTarget.all.map(\.name))")
    return 2
  }
  Selection.target.store(target)
  unsafe setenv("SIMP_FUZZ_TARGET", target.name, 1)

  // SAFETY: libFuzzer reads the arguments, which live as long as the process; where the target's name stands, the
  // program's is laid over it.
  if isNamed { unsafe arguments[1] = arguments[0] }
  var rest = isNamed ? count - 1 : count
  var shifted: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = unsafe isNamed ? arguments + 1 : arguments
  return unsafe LLVMFuzzerRunDriver(&rest, &shifted) { data, size in
    // SAFETY: libFuzzer's bytes live for the call, and the array copies them.
    let input = unsafe Array(UnsafeBufferPointer(start: data, count: size))
    do {
      try Selection.target.run(input)
    } catch {
      print("violation: \(error)")
      fflush(nil)
      fatalError("\(error)")
    }
    return 0
  }
}

/// The chosen target: set once, before libFuzzer's loop, and read by its callback, which can capture nothing.
enum Selection {
  final class Box: @unchecked Sendable {
    private var target: FuzzTarget?
    func store(_ target: FuzzTarget) { self.target = target }
    func run(_ input: [UInt8]) throws { try target?.run(input) }
  }
  static let target = Box()
}

private func writeSeeds(of name: String, to directory: String) -> Int32 {
  guard let target = FuzzTarget.all.first(where: { $0.name == name }) else { return 2 }
  for (index, seed) in target.seeds().enumerated() {
    guard let file = unsafe fopen("\(directory)/seed-\(index)", "w") else { return 1 }
    unsafe fwrite(seed, 1, seed.count, file)
    unsafe fclose(file)
  }
  return 0
}
