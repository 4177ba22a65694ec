// swift-tools-version: 6.3
import PackageDescription

let strict: [SwiftSetting] = [
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableExperimentalFeature("Lifetimes"),
]

/// Each target names what it may import; the arrows only point inward (README.md, layer map).
let package = Package(
  name: "simp",
  products: [
    .library(name: "SimpConnection", targets: ["SimpConnection"]),
    .executable(name: "simp-server", targets: ["simp-server"]),
    .executable(name: "simp-bench", targets: ["simp-bench"]),
    .executable(name: "simp", targets: ["simp"]),
    // Loaded into the programs whose clocks `simp-bench verify` moves.
    .library(name: "SimpFalseClock", type: .dynamic, targets: ["CSimpFalseClock"]),
  ],
  targets: [
    .systemLibrary(name: "CUV", providers: [.apt(["libuv1-dev"])]),
    .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
    .systemLibrary(name: "CJWT", providers: [.apt(["libjwt-dev"])]),
    .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CProtobufC", providers: [.apt(["libprotobuf-c-dev"])]),

    .target(name: "CSimpMessages", dependencies: ["CProtobufC"], linkerSettings: [.linkedLibrary("protobuf-c")]),
    .target(
      name: "CSimpLinux", dependencies: ["COpenSSL", "CUV"], cSettings: [.define("_GNU_SOURCE")],
      linkerSettings: ["ssl", "crypto", "uv"].map { .linkedLibrary($0) }),
    .target(
      name: "CSimpRedis", dependencies: ["CHiredis", "CUV"], cSettings: [.define("_GNU_SOURCE")],
      linkerSettings: ["hiredis", "uv"].map { .linkedLibrary($0) }),

    .target(
      name: "CSimpKeys", dependencies: ["COpenSSL"], linkerSettings: [.linkedLibrary("crypto")]),

    .target(name: "CSimpFalseClock", cSettings: [.define("_GNU_SOURCE")]),

    .target(name: "SimpCore", dependencies: ["CSimpMessages", "CProtobufC"], swiftSettings: strict),
    .target(name: "SimpIO", dependencies: ["SimpCore", "CSimpLinux", "CUV", "COpenSSL"], swiftSettings: strict),
    .target(
      name: "SimpRedis", dependencies: ["SimpIO", "SimpCore", "CSimpRedis", "CHiredis", "CUV"], swiftSettings: strict),
    .target(name: "SimpStore", dependencies: ["SimpCore", "CSQLite"], swiftSettings: strict),
    .target(name: "SimpToken", dependencies: ["CJWT", "CSimpKeys"], swiftSettings: strict),
    .target(name: "SimpSupport", swiftSettings: strict),
    .target(name: "SimpConnection", dependencies: ["SimpCore", "SimpIO", "SimpStore"], swiftSettings: strict),
    .target(
      name: "SimpServer", dependencies: ["SimpCore", "SimpIO", "SimpRedis", "SimpToken", "SimpSupport"],
      swiftSettings: strict),
    .target(name: "SimpAccess", dependencies: ["SimpConnection", "SimpSupport"], swiftSettings: strict),
    .target(
      name: "SimpTool", dependencies: ["SimpAccess", "SimpConnection", "SimpIO", "SimpToken", "SimpSupport"],
      swiftSettings: strict),
    .target(
      name: "SimpBench",
      dependencies: ["SimpAccess", "SimpConnection", "SimpCore", "SimpIO", "SimpToken", "SimpSupport"],
      swiftSettings: strict),

    .executableTarget(
      name: "simp-server", dependencies: ["SimpServer", "SimpSupport", "SimpToken"], swiftSettings: strict),
    .executableTarget(name: "simp-bench", dependencies: ["SimpBench", "SimpSupport"], swiftSettings: strict),
    .executableTarget(name: "simp", dependencies: ["SimpTool", "SimpSupport"], swiftSettings: strict),

    .testTarget(name: "SimpCoreTests", dependencies: ["SimpCore"], swiftSettings: strict),
    .testTarget(name: "SimpIOTests", dependencies: ["SimpIO", "SimpCore", "CSimpLinux"], swiftSettings: strict),
    .testTarget(
      name: "SimpRedisTests", dependencies: ["SimpRedis", "SimpIO", "SimpCore", "ProgramRig"], swiftSettings: strict),
    .executableTarget(
      name: "store-rig", dependencies: ["SimpConnection", "SimpStore", "SimpCore"], path: "Tests/StoreRig",
      swiftSettings: strict),
    .testTarget(
      name: "SimpStoreTests", dependencies: ["SimpStore", "SimpCore", "ProgramRig"], swiftSettings: strict),
    .testTarget(
      name: "SimpTokenTests", dependencies: ["SimpToken", "CJWT", "CSimpKeys", "COpenSSL"], swiftSettings: strict),
    .testTarget(name: "SimpSupportTests", dependencies: ["SimpSupport"], swiftSettings: strict),
    .testTarget(
      name: "SimpServerTests", dependencies: ["SimpServer", "SimpCore", "SimpIO", "SimpSupport"], swiftSettings: strict),
    .testTarget(
      name: "SimulationTests", dependencies: ["SimpCore", "SimpRedis", "SimpServer", "SimpSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "EndToEndTests",
      dependencies: ["SimpConnection", "SimpServer", "SimpToken", "SimpCore", "SimpIO", "SimpSupport", "ProgramRig"],
      swiftSettings: strict),
    .testTarget(
      name: "FuzzReplayTests",
      dependencies: ["SimpCore", "SimpIO", "SimpToken", "CSimpMessages", "CProtobufC", "COpenSSL"],
      path: "Tests/Fuzz/Replay", swiftSettings: strict),
    .target(name: "ProgramRig", dependencies: ["SimpIO"], path: "Tests/ProgramRig", swiftSettings: strict),
    .testTarget(
      name: "SimpToolTests",
      dependencies: ["SimpTool", "SimpAccess", "SimpConnection", "SimpIO", "SimpToken", "SimpSupport", "ProgramRig"],
      swiftSettings: strict),
    .testTarget(
      name: "SimpBenchTests", dependencies: ["SimpBench", "SimpConnection", "SimpCore", "SimpSupport", "ProgramRig"],
      swiftSettings: strict),
  ],
  swiftLanguageModes: [.v6]
)
