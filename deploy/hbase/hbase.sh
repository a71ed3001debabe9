#!/usr/bin/env bash
# A standalone HBase with its Thrift server, from Maven Central, for trying and testing index type `hbase`.
#
#   hbase.sh start DIR [THRIFT_PORT]   data, logs and process ids below DIR; default port 9090; returns when Thrift answers
#   hbase.sh stop DIR                  ends both processes; the data stays
#
# LAKEIDX_HBASE_HEAP is the heap of the server, default 512m; more for millions of keys.
#
# Needs Java 17 and Maven (the first start fetches about 110 MB of jars into $LAKEIDX_HBASE_CACHE, default
# ~/.cache/lakeidx-hbase). Everything listens on loopback only. Not for production: one process holds master, region server
# and ZooKeeper, data lies on the local disk.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${LAKEIDX_HBASE_CACHE:-$HOME/.cache/lakeidx-hbase}
action=${1:?start or stop}
dir=${2:?directory}
port=${3:-9090}
heap=${LAKEIDX_HBASE_HEAP:-512m}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

listening() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

fetch() {
  if [ ! -f "$cache/ready" ]; then
    mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$cache/lib" >&2
    touch "$cache/ready"
  fi
}

configure() {
  mkdir -p "$dir/conf" "$dir/logs" "$dir/data" "$dir/tmp"
  cat > "$dir/conf/hbase-site.xml" <<XML
<configuration>
  <property><name>hbase.cluster.distributed</name><value>false</value></property>
  <property><name>hbase.rootdir</name><value>file://$dir/data/hbase</value></property>
  <property><name>hbase.tmp.dir</name><value>$dir/tmp</value></property>
  <property><name>hbase.zookeeper.property.dataDir</name><value>$dir/data/zookeeper</value></property>
  <property><name>hbase.zookeeper.property.clientPort</name><value>$(free_port)</value></property>
  <property><name>hbase.zookeeper.property.clientPortAddress</name><value>127.0.0.1</value></property>
  <property><name>hbase.zookeeper.quorum</name><value>127.0.0.1</value></property>
  <property><name>hbase.unsafe.stream.capability.enforce</name><value>false</value></property>
  <property><name>hbase.wal.provider</name><value>filesystem</value></property>
  <property><name>hbase.localcluster.assign.random.ports</name><value>true</value></property>
  <property><name>hbase.master.info.port</name><value>-1</value></property>
  <property><name>hbase.regionserver.info.port</name><value>-1</value></property>
  <property><name>hbase.thrift.info.port</name><value>-1</value></property>
  <property><name>hbase.master.hostname</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.hostname</name><value>127.0.0.1</value></property>
  <property><name>hbase.master.ipc.address</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.ipc.address</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.thrift.ipaddress</name><value>127.0.0.1</value></property>
  <property><name>hbase.regionserver.handler.count</name><value>10</value></property>
  <!-- Half of the heap: the collector's old generation, where both end up, is two thirds. By default they take four fifths, and a
       server that has some hundred thousand keys does nothing but collect. -->
  <property><name>hbase.regionserver.global.memstore.size</name><value>0.25</value></property>
  <property><name>hfile.block.cache.size</name><value>0.25</value></property>
</configuration>
XML
  cat > "$dir/conf/log4j.properties" <<'LOG'
log4j.rootLogger=WARN,file
log4j.appender.file=org.apache.log4j.ConsoleAppender
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c{1}: %m%n
LOG
}

run_java() {
  local name=$1 heap=$2
  shift 2
  java "-Xmx$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-opens java.base/java.lang.reflect=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
    --add-opens java.base/java.util.concurrent=ALL-UNNAMED --add-exports java.base/jdk.internal.misc=ALL-UNNAMED \
    -Djava.net.preferIPv4Stack=true -cp "$dir/conf:$cache/lib/*" "$@" > "$dir/logs/$name.log" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

start() {
  if listening "$port"; then
    echo "port $port is taken" >&2
    exit 2
  fi
  fetch
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  configure
  run_java master "$heap" org.apache.hadoop.hbase.master.HMaster start
  run_java thrift 256m org.apache.hadoop.hbase.thrift.ThriftServer start --port "$port"
  for _ in $(seq 1 1200); do
    for name in master thrift; do
      if ! kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null; then
        echo "HBase's $name ended: see $dir/logs/$name.log" >&2
        tail -5 "$dir/logs/$name.log" >&2
        stop
        exit 1
      fi
    done
    if listening "$port"; then
      echo "HBase: Thrift on 127.0.0.1:$port"
      exit 0
    fi
    sleep 0.5
  done
  echo "HBase did not answer within ten minutes: see $dir/logs" >&2
  stop
  exit 1
}

stop() {
  for name in thrift master; do
    if [ -f "$dir/$name.pid" ]; then
      kill "$(cat "$dir/$name.pid")" 2>/dev/null || true
    fi
  done
  for _ in $(seq 1 40); do
    alive=0
    for name in thrift master; do
      if [ -f "$dir/$name.pid" ] && kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null; then alive=1; fi
    done
    [ $alive = 0 ] && break
    sleep 0.5
  done
  for name in thrift master; do
    if [ -f "$dir/$name.pid" ]; then
      kill -9 "$(cat "$dir/$name.pid")" 2>/dev/null || true
      rm -f "$dir/$name.pid"
    fi
  done
}

case $action in
  start) start ;;
  stop) stop ;;
  *) echo "unknown action $action: use start or stop" >&2; exit 2 ;;
esac
