// SimpBenchTests
