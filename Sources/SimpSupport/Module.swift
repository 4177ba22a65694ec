// SimpSupport
