// Package natsembed runs a NATS server with JetStream inside this process, for programs that want the store of package natskv without
// running another program. It is a module of its own, so that only its users pay for the server, some 25 MB of a binary.
//
//	server, err := natsembed.Start(natsembed.Options{Dir: "/var/lib/limits"})
//	...
//	defer server.Close()
//	conn, err := server.Connect()
//	...
//	engine, err := natskv.Open(ctx, conn, natskv.Options{})
//
// The server opens no port for clients: only this process can connect to it, by Connect. With Options.Peers it is one of a cluster,
// and listens for the other servers on Options.Route. A new cluster begins to work when all of its servers have been started; from then on
// it works as long as most of them do, so three survive the loss of any one. Open buckets with as many replicas as there are servers
// (natskv.Options.Replicas): a bucket with one is lost with the server that has it. When a server is lost, the others need some
// seconds, up to nine, to agree on who takes over what it led.
//
// # What survives what
//
// A write is handed to the operating system before it is acknowledged, so the end of the process, even by kill -9, loses nothing. Files are
// synced to the disk every two minutes unless Options.SyncAlways is set: what a single server wrote since then may be lost if the
// machine loses power or its kernel crashes. In a cluster, the servers that keep running have those writes; they are lost only if
// most of the servers lose power within the same two minutes.
//
// # Who can reach it
//
// Servers of a cluster trust one another completely. They prove that they belong together by Options.Secret, and what they say to one
// another is not encrypted: use a private network. Without a secret, which is accepted on loopback only, any program on this
// machine can join the cluster.
package natsembed
