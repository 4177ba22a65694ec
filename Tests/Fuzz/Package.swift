// swift-tools-version: 6.3
// The fuzzers as a package of their own: `Tests/Fuzz/run` lays this manifest and the sources it names into one
// directory and builds them there with libFuzzer. The settings are those of the project's own manifest.
import PackageDescription

let strict: [SwiftSetting] = [
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableExperimentalFeature("Lifetimes"),
]

// What is fuzzed tells libFuzzer what it passes; the targets do not, for what their models compare would cost more than
// all the rest and lead nowhere.
let sanitizers = "-sanitize=\(Context.environment["SIMP_FUZZ_SANITIZERS"] ?? "fuzzer")"
let fuzzed = strict + [.unsafeFlags([sanitizers])]

let package = Package(
  name: "fuzz",
  targets: [
    .systemLibrary(name: "CUV"),
    .systemLibrary(name: "COpenSSL"),
    .systemLibrary(name: "CJWT"),
    .systemLibrary(name: "CProtobufC"),
    .target(name: "CSimpMessages", dependencies: ["CProtobufC"], linkerSettings: [.linkedLibrary("protobuf-c")]),
    .target(
      name: "CSimpLinux", dependencies: ["COpenSSL", "CUV"], cSettings: [.define("_GNU_SOURCE")],
      linkerSettings: ["ssl", "crypto", "uv"].map { .linkedLibrary($0) }),
    .target(name: "SimpCore", dependencies: ["CSimpMessages", "CProtobufC"], swiftSettings: fuzzed),
    .target(name: "SimpIO", dependencies: ["SimpCore", "CSimpLinux", "CUV", "COpenSSL"], swiftSettings: fuzzed),
    .target(name: "CSimpKeys", dependencies: ["COpenSSL"], linkerSettings: [.linkedLibrary("crypto")]),
    .target(name: "SimpToken", dependencies: ["CJWT", "CSimpKeys"], swiftSettings: fuzzed),
    .target(name: "CLibFuzzer"),
    .executableTarget(
      name: "fuzz",
      dependencies: [
        "SimpCore", "SimpIO", "SimpToken", "CSimpMessages", "CProtobufC", "COpenSSL", "CLibFuzzer",
      ],
      swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])],
      linkerSettings: [.unsafeFlags([sanitizers, "-use-ld=lld"])]),
  ],
  swiftLanguageModes: [.v6]
)
