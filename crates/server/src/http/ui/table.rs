//! The files of the dashboard. Written by `npm run build` in `ui`.

use super::Asset;

pub(super) static ASSETS: [Asset; 3] = [
    Asset {
        path: "assets/index-C3lWjcXO.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "\"fc64f39417783248\"",
        bytes: include_bytes!("../../../assets/ui/index-C3lWjcXO.js.gz"),
    },
    Asset {
        path: "assets/style-DhR_ztGs.css",
        content_type: "text/css; charset=utf-8",
        tag: "\"39c1850da57a808d\"",
        bytes: include_bytes!("../../../assets/ui/style-DhR_ztGs.css.gz"),
    },
    Asset {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "\"c0442456f9e5b678\"",
        bytes: include_bytes!("../../../assets/ui/index.html.gz"),
    },
];
