// SimpSupportTests
