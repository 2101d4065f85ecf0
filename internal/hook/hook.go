// Package hook carries functions of package slidegate to package internal/adapter. They need what is unexported in slidegate, and users of
// slidegate do not need them. Package slidegate sets the variables when it is initialized, and package adapter, which has their types and
// their documentation, is the only one that reads them: this package is below slidegate and cannot name its types.
package hook

// Functions of package slidegate.
var Bind, Unbind, Combine, Bound, Over, Declare, Settle, WaitWith any

// ReservationVersion is the version of slidegate.Reservation that is read and written.
const ReservationVersion = 1
