// Package routers shows Slidegate's middleware in the routers that Go programs use, one file each. Every function makes
// the same small server: GET /hello/{name} greets, and a client who asks too often is refused before the greeting is
// made. The tests hold all of them to the same table.
package routers
