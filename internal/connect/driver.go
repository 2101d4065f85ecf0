// Package connect holds what the packages of stores share to open a store at a URL: a Driver says how to connect to a server, and a
// Connection is the store that connects, in the background and again whenever necessary. Those packages register their drivers, so that
// the service finds one by the scheme of a URL.
package connect

import (
	"context"
	"log/slog"

	"github.com/slidegate/slidegate/store"
)

// Driver is what a store's URL says: which store it is, and how to connect to it. The packages of stores make one from a URL, and
// Connect uses it. A Driver is for one Connection.
type Driver struct {
	// Offline is the store without a connection. Only Check and Traits are called.
	Offline store.Store
	// Warnings are sentences about the URL that an operator should read, such as that a password may cross the network in plain text.
	Warnings []string
	// Connect makes one attempt to connect. It ends by its own timeouts, within a few seconds, and at once when ctx ends, which happens
	// when the Connection is closed. Its error wraps ErrRefused if the server refused the credentials, the role or the database, and
	// contains no password. The logger receives what happens in the background from then on.
	Connect func(ctx context.Context, log *slog.Logger) (*Link, error)
	// Close releases what all attempts share, after the Link is closed. It may be nil.
	Close func()
}

// Link is a connected store, which reconnects by itself from then on.
type Link struct {
	Store store.Store
	// Close closes the connections. The store is not called afterwards.
	Close func()
	// Warnings returns settings of the server under which limits do not hold: one sentence per problem. It may be nil.
	Warnings func(ctx context.Context) ([]string, error)
}

var drivers = map[string]func(url string) (*Driver, error){}

// Register makes a function known that returns the drivers of URLs with some schemes. It is called by the init functions of packages.
func Register(driverOf func(url string) (*Driver, error), schemes ...string) {
	for _, scheme := range schemes {
		drivers[scheme] = driverOf
	}
}

// Registered returns the function that was registered for a scheme, or nil.
func Registered(scheme string) func(url string) (*Driver, error) { return drivers[scheme] }
