//go:build !no_nats_server

package open

import _ "github.com/slidegate/slidegate/kvstore/natsembed" // registers the driver of a server in this process
