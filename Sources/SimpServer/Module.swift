// SimpServer
