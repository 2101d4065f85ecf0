// Package natsdriver carries a function of package natskv to package natsembed. It needs what is unexported in natskv, and users of natskv
// do not need it.
package natsdriver

import (
	"net"
	"net/url"

	"github.com/slidegate/slidegate/internal/connect"
)

// New returns the driver of a bucket on a server in this process, to which dial connects. The query has the parameters bucket, replicas,
// storage, prefix and timeout of a URL. Package natskv sets it when it is initialized.
var New func(query url.Values, dial func() (net.Conn, error)) (*connect.Driver, error)
