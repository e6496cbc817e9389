//! The files of the dashboard. Written by `npm run build` in `ui`.

use super::Asset;

pub(super) static ASSETS: [Asset; 3] = [
    Asset {
        path: "assets/index-CpinLcEw.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "\"274a7dbe5dd2ae04\"",
        bytes: include_bytes!("../../../assets/ui/index-CpinLcEw.js.gz"),
    },
    Asset {
        path: "assets/style-B6QPKiGx.css",
        content_type: "text/css; charset=utf-8",
        tag: "\"bb429a28b1f5cb9a\"",
        bytes: include_bytes!("../../../assets/ui/style-B6QPKiGx.css.gz"),
    },
    Asset {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "\"685abbca44bf193a\"",
        bytes: include_bytes!("../../../assets/ui/index.html.gz"),
    },
];
