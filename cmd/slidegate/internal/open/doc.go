// Package open opens the service's store by its URL and wraps it in layers: observation, leases, failure modes, a cache of
// refusals, and coalescing of calls. A store that is down does not prevent the service from starting: stores connects to it in
// the background, and until then the failure modes decide. No error or log line contains a password.
//
// The URLs, with their optional parameters:
//
//	memory:                                       ?max_bytes=N, such as 256MiB
//	redis://USER:PASSWORD@HOST:PORT/DB            ?prefix=TEXT &dial_timeout=1s &write_timeout=3s &client_name=TEXT &protocol=2
//	redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT
//	redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB   &sentinel_user=TEXT &sentinel_password=TEXT
//	rediss://, rediss+cluster://, rediss+sentinel://   the same over TLS; &server_name=HOST &skip_verify=true
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE   ?slidegate_schema=TEXT &slidegate_prefix=TEXT &slidegate_unlogged=true
//	                                              &slidegate_synchronous_commit=off &slidegate_migrate=false
//	nats://USER:PASSWORD@HOST:PORT,HOST:PORT      ?bucket=TEXT &replicas=N &storage=memory &prefix=TEXT &timeout=1s
//	                                              &credentials=FILE
//	nats://TOKEN@HOST:PORT                        the same, with a token
//	tls://USER:PASSWORD@HOST:PORT                 the same over TLS; &ca=FILE &cert=FILE &key=FILE &skip_verify=true
//	nats:embedded?dir=FOLDER                      a NATS server in this process; &bucket= &storage= &prefix= &timeout= as above, &sync=always
//	                                              &route=HOST:PORT &cluster=HOST:PORT,HOST:PORT,HOST:PORT &secret=TEXT &name=TEXT
//	                                              &replicas=N, which is the number of processes in the cluster, up to 3
//
// Everything but the host is optional. In a user or password, the characters / ? # @ and % are percent-encoded. The other
// parameters of a postgres URL are those of libpq and of pgx's pool, such as sslmode=verify-full and pool_max_conns=20.
package open
