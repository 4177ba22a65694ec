// SimpTokenTests
