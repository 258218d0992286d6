// Command pubsub_server runs Google's test server of Pub/Sub and writes its address.
package main

import (
	"fmt"

	"cloud.google.com/go/pubsub/pstest"
)

func main() {
	server := pstest.NewServer()
	fmt.Println(server.Addr)
	select {}
}
