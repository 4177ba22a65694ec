// SimpIOTests
