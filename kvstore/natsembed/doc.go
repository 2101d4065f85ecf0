// Package natsembed runs a NATS server with JetStream inside this process, for programs that want the store of package natskv without
// running another program. It is a separate module, so only its users pay for the server, about 25 MB of a binary.
//
//	st, err := natsembed.Open(ctx, "nats:embedded?dir=/var/lib/limits")
//	limiter, err := slidegate.New(st, slidegate.PerMinute(100))
//	defer st.Close()
//
// The server and the store can also be started one by one:
//
//	server, err := natsembed.Start(natsembed.Options{Dir: "/var/lib/limits"})
//	...
//	defer server.Close()
//	conn, err := server.Connect()
//	...
//	engine, err := natskv.New(ctx, conn, natskv.Options{})
//
// The server opens no port for clients: only this process can connect to it, through Connect. With Options.Cluster it is a member of a
// cluster, and listens for the other members on Options.Route. A new cluster starts working once all of its members have been
// started; from then on it needs a majority of them, so a cluster of three survives the loss of any one. Open buckets with as many
// replicas as there are members (natskv.Options.Replicas): a bucket without replicas is lost with the member that has it. When
// a member is lost, the others need 4 to 9 seconds to take over what it led.
//
// # Durability
//
// A write is handed to the operating system before it is acknowledged, so the end of the process, even by kill -9, loses nothing. Files
// are synced to disk every two minutes unless Options.SyncAlways is set. What a single server wrote since the last sync is lost if
// the machine loses power or its kernel crashes. In a cluster the other members still have it; it is lost only if a majority
// of the members lose power within the same two minutes.
//
// # Full disks
//
// NATS does not write again after a write error, such as on a full disk, until it is restarted. A Server restarts it as soon as the
// folder can be written, which it checks every second, and loses nothing that was acknowledged. Until then connections to a single
// server are down, so that requests fail at once; they reconnect by themselves. A member of a cluster works without its own files in the
// meantime: its connections stay usable, and the other members answer.
//
// # Security
//
// The members of a cluster trust one another completely. They authenticate with Options.Secret, and their traffic is not encrypted:
// use a private network. Without a secret, which is accepted on loopback only, any program on this machine can join the cluster.
package natsembed
