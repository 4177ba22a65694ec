// SimpCoreTests
